//! The tables of `pg_catalog`.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use arrow::array::{ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use pgwire::api::Type;

use super::types;
use super::{CATALOG, CATALOG_OID, DATABASE, DATABASE_OID, INFORMATION_OID, OWNER_OID, SCHEMA, SCHEMA_OID, Served};
use crate::types as wire;

/// Tables and their columns. The letter before a column is its type: a number of an object, a
/// flag, an int (4 or 2 bytes), a text.
const TABLES: &[(&str, &str)] = &[
    ("pg_am", "oid:o amname:t amhandler:t amtype:t"),
    (
        "pg_attribute",
        "attrelid:o attname:t atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i atttypmod:i \
         attbyval:b attalign:t attstorage:t attcompression:t attnotnull:b atthasdef:b atthasmissing:b attidentity:t \
         attgenerated:t attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:t attoptions:t attfdwoptions:t",
    ),
    (
        "pg_class",
        "oid:o relname:t relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o \
         relpages:i reltuples:i relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence:t relkind:t \
         relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b \
         relispopulated:b relreplident:t relispartition:b relrewrite:o relacl:t reloptions:t relpartbound:t \
         relhasoids:b",
    ),
    (
        "pg_database",
        "oid:o datname:t datdba:o encoding:i datlocprovider:t datistemplate:b datallowconn:b datconnlimit:i \
         dattablespace:o datcollate:t datctype:t daticulocale:t datlocale:t daticurules:t datcollversion:t datacl:t",
    ),
    ("pg_namespace", "oid:o nspname:t nspowner:o nspacl:t"),
    (
        "pg_roles",
        "oid:o rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
         rolconnlimit:i rolpassword:t rolvaliduntil:t rolbypassrls:b rolconfig:t",
    ),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    ("pg_tablespace", "oid:o spcname:t spcowner:o spcacl:t spcoptions:t"),
    (
        "pg_type",
        "oid:o typname:t typnamespace:o typowner:o typlen:s typbyval:b typtype:t typcategory:t typispreferred:b \
         typisdefined:b typdelim:t typrelid:o typsubscript:t typelem:o typarray:o typinput:t typoutput:t typreceive:t \
         typsend:t typmodin:t typmodout:t typanalyze:t typalign:t typstorage:t typnotnull:b typbasetype:o typtypmod:i \
         typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:t",
    ),
    (
        "pg_user",
        "usename:t usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:t useconfig:t",
    ),
];

/// Tables of what is never there, with the columns that clients name.
const EMPTY: &[(&str, &str)] = &[
    ("pg_attrdef", "oid:o adrelid:o adnum:s adbin:t"),
    ("pg_auth_members", "roleid:o member:o grantor:o admin_option:b"),
    ("pg_cast", "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t"),
    (
        "pg_collation",
        "oid:o collname:t collnamespace:o collowner:o collprovider:t collencoding:i collcollate:t collctype:t",
    ),
    (
        "pg_constraint",
        "oid:o conname:t connamespace:o contype:t condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o \
         conindid:o conparentid:o confrelid:o confupdtype:t confdeltype:t confmatchtype:t conislocal:b coninhcount:i \
         connoinherit:b conkey:t confkey:t conbin:t",
    ),
    ("pg_depend", "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:t"),
    ("pg_description", "objoid:o classoid:o objsubid:i description:t"),
    ("pg_enum", "oid:o enumtypid:o enumsortorder:i enumlabel:t"),
    ("pg_event_trigger", "oid:o evtname:t evtevent:t evtowner:o evtfoid:o evtenabled:t evttags:t"),
    (
        "pg_extension",
        "oid:o extname:t extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:t extcondition:t",
    ),
    ("pg_foreign_data_wrapper", "oid:o fdwname:t fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:t fdwoptions:t"),
    ("pg_foreign_server", "oid:o srvname:t srvowner:o srvfdw:o srvtype:t srvversion:t srvacl:t srvoptions:t"),
    ("pg_foreign_table", "ftrelid:o ftserver:o ftoptions:t"),
    (
        "pg_index",
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b indisprimary:b \
         indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b \
         indisreplident:b indkey:t indcollation:t indclass:t indoption:t indexprs:t indpred:t",
    ),
    ("pg_inherits", "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    ("pg_language", "oid:o lanname:t lanowner:o lanispl:b lanpltrusted:b"),
    ("pg_locks", "locktype:t database:o relation:o pid:i mode:t granted:b"),
    ("pg_matviews", "schemaname:t matviewname:t matviewowner:t tablespace:t hasindexes:b ispopulated:b definition:t"),
    ("pg_opclass", "oid:o opcmethod:o opcname:t opcnamespace:o opcowner:o opcintype:o opcdefault:b"),
    ("pg_operator", "oid:o oprname:t oprnamespace:o oprleft:o oprright:o oprresult:o"),
    ("pg_partitioned_table", "partrelid:o partstrat:t partnatts:s partdefid:o"),
    ("pg_policy", "oid:o polname:t polrelid:o polcmd:t polpermissive:b polroles:t polqual:t polwithcheck:t"),
    (
        "pg_proc",
        "oid:o proname:t pronamespace:o proowner:o prolang:o prokind:t prosecdef:b proisstrict:b proretset:b \
         provolatile:t pronargs:s prorettype:o proargtypes:t proallargtypes:t proargmodes:t proargnames:t prosrc:t \
         proacl:t",
    ),
    ("pg_publication", "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b"),
    ("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    ("pg_publication_rel", "oid:o prpubid:o prrelid:o prqual:t prattrs:t"),
    ("pg_range", "rngtypid:o rngsubtype:o rngmultitypid:o"),
    ("pg_rewrite", "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b"),
    ("pg_sequence", "seqrelid:o seqtypid:o seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b"),
    ("pg_sequences", "schemaname:t sequencename:t sequenceowner:t data_type:t"),
    ("pg_settings", "name:t setting:t unit:t category:t short_desc:t context:t vartype:t source:t"),
    ("pg_shdescription", "objoid:o classoid:o description:t"),
    (
        "pg_stat_activity",
        "datid:o datname:t pid:i usesysid:o usename:t application_name:t client_addr:t state:t query:t",
    ),
    ("pg_stat_user_tables", "relid:o schemaname:t relname:t seq_scan:o n_live_tup:o"),
    ("pg_statistic_ext", "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:t stxkind:t"),
    ("pg_subscription", "oid:o subdbid:o subname:t subowner:o subenabled:b"),
    ("pg_trigger", "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:o tgtype:s tgenabled:t tgisinternal:b tgconstraint:o"),
    ("pg_views", "schemaname:t viewname:t viewowner:t definition:t"),
];

/// Whether `pg_catalog` has a table of this name.
pub(crate) fn has(name: &str) -> bool {
    TABLES.iter().chain(EMPTY).any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Whether that table never has a row.
pub(crate) fn is_empty(name: &str) -> bool {
    EMPTY.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// A value of a catalog.
#[derive(Clone)]
enum Value {
    Number(i64),
    Flag(bool),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The columns of a row that are not 0, false or null.
type Row = BTreeMap<&'static str, Value>;

macro_rules! row {
    ($($column:ident: $value:expr),* $(,)?) => {
        Row::from([$((stringify!($column), Value::from($value))),*])
    };
}

/// All tables, filled.
pub(super) fn all(served: &[Served]) -> anyhow::Result<Vec<(&'static str, Arc<dyn TableProvider>)>> {
    let mut all: Vec<(&'static str, Arc<dyn TableProvider>)> = Vec::new();
    for (name, columns) in TABLES.iter().chain(EMPTY) {
        all.push((name, table(columns, &rows(name, served)).with_context(|| format!("{CATALOG}.{name}"))?));
    }
    Ok(all)
}

fn rows(name: &str, served: &[Served]) -> Vec<Row> {
    match name {
        "pg_am" => vec![row! { oid: 2, amname: "heap", amtype: "t" }],
        "pg_attribute" => served.iter().flat_map(attributes).collect(),
        "pg_class" => served.iter().map(class).collect(),
        "pg_database" => vec![row! {
            oid: DATABASE_OID, datname: DATABASE, datdba: OWNER_OID, encoding: 6, datlocprovider: "c",
            datallowconn: true, datconnlimit: -1, datcollate: "C", datctype: "C",
        }],
        "pg_namespace" => {
            let named = [(CATALOG_OID, CATALOG), (SCHEMA_OID, SCHEMA), (INFORMATION_OID, "information_schema")];
            named.map(|(oid, name)| row! { oid: oid, nspname: name, nspowner: OWNER_OID }).into()
        }
        "pg_roles" => vec![row! { oid: OWNER_OID, rolname: DATABASE, rolinherit: true, rolconnlimit: -1 }],
        "pg_tables" => {
            let table = |served: &Served| {
                row! { schemaname: SCHEMA, tablename: served.name.as_str(), tableowner: DATABASE }
            };
            served.iter().map(table).collect()
        }
        "pg_tablespace" => vec![row! { oid: 1663, spcname: "pg_default", spcowner: OWNER_OID }],
        "pg_type" => types::ALL.iter().map(of_type).collect(),
        "pg_user" => vec![row! { usename: DATABASE, usesysid: OWNER_OID }],
        _ => Vec::new(),
    }
}

fn class(served: &Served) -> Row {
    row! {
        oid: served.oid, relname: served.name.as_str(), relnamespace: SCHEMA_OID, relowner: OWNER_OID, relam: 2,
        relfilenode: served.oid, reltuples: -1, relpersistence: "p", relkind: "r", relispopulated: true,
        relnatts: served.schema.fields().len() as i64, relreplident: "n",
    }
}

fn attributes(served: &Served) -> impl Iterator<Item = Row> {
    served.schema.fields().iter().zip(1i64..).map(|(field, number)| {
        let kind = wire::of_arrow(field.data_type());
        row! {
            attrelid: served.oid, attname: field.name().as_str(), atttypid: i64::from(kind.oid()), attstattarget: -1,
            attlen: i64::from(wire::size(&kind)), attnum: number, attcacheoff: -1,
            atttypmod: i64::from(wire::modifier(field.data_type())), attalign: "i", attstorage: "p",
            attcompression: "", attnotnull: !field.is_nullable(), attidentity: "", attgenerated: "", attislocal: true,
            attndims: i64::from(wire::element(&kind).is_some()),
        }
    })
}

fn of_type(kind: &Type) -> Row {
    let element = wire::element(kind).map_or(0, |element| i64::from(element.oid()));
    let array = wire::array_of(kind);
    let array = if wire::element(&array) == Some(kind) { i64::from(array.oid()) } else { 0 };
    row! {
        oid: i64::from(kind.oid()), typname: kind.name(), typnamespace: CATALOG_OID, typowner: OWNER_OID,
        typlen: i64::from(wire::size(kind)), typtype: "b", typcategory: types::category(kind), typisdefined: true,
        typdelim: ",", typelem: element, typarray: array, typtypmod: -1,
        typinput: if element != 0 { "array_in" } else { kind.name() }, typoutput: kind.name(), typreceive: kind.name(),
        typalign: "i", typstorage: "p", typmodin: "-",
    }
}

/// A table in memory, of columns such as `oid:o`.
fn table(columns: &str, rows: &[Row]) -> anyhow::Result<Arc<dyn TableProvider>> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in columns.split_whitespace() {
        let (name, letter) = column.split_once(':').with_context(|| format!("column {column} has no type"))?;
        let array = array(letter, rows.iter().map(|row| row.get(name)));
        fields.push(Field::new(name, array.data_type().clone(), array.data_type() == &DataType::Utf8));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

fn array<'a>(letter: &str, values: impl Iterator<Item = Option<&'a Value>>) -> ArrayRef {
    let number = |value: Option<&Value>| if let Some(Value::Number(number)) = value { *number } else { 0 };
    match letter {
        "b" => Arc::new(BooleanArray::from_iter(values.map(|value| Some(matches!(value, Some(Value::Flag(true))))))),
        "i" => Arc::new(Int32Array::from_iter_values(values.map(|value| number(value) as i32))),
        "s" => Arc::new(Int16Array::from_iter_values(values.map(|value| number(value) as i16))),
        "o" => Arc::new(Int64Array::from_iter_values(values.map(number))),
        _ => Arc::new(StringArray::from_iter(values.map(|value| match value {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        }))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_name_only_columns_that_their_tables_have() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let served = [Served { oid: 16_384, name: "t".into(), schema }];
        for (name, columns) in TABLES {
            let columns: Vec<_> = columns.split_whitespace().map(|column| column.split_once(':').unwrap().0).collect();
            for row in rows(name, &served) {
                assert!(row.keys().all(|column| columns.contains(column)), "{name}: {:?}", row.keys());
            }
        }
        assert_eq!(all(&served).unwrap().len(), TABLES.len() + EMPTY.len());
        assert!(has("PG_CLASS") && is_empty("pg_index") && !is_empty("pg_class") && !has("lineitem"));
    }
}
