//! Catalogs, which say where the newest metadata of a table are: REST servers, and SQL catalogs in
//! SQLite. Of what a REST server says only that is taken.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use iceberg::io::LocalFsStorageFactory;
use iceberg::{Catalog as _, CatalogBuilder, NamespaceIdent, TableIdent};
use iceberg_catalog_rest::{RestCatalog, RestCatalogBuilder};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use url::Url;

use crate::error::{IcebergError, Result};
use crate::place::Location;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A table of a catalog.
pub(crate) enum Catalog {
    Rest { at: String, catalog: Box<RestCatalog>, table: TableIdent },
    Sql(InSqlite),
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A catalog's own form has its token.
        match self {
            Self::Rest { at, table, .. } => write!(f, "{table} of {at}"),
            Self::Sql(table) => write!(f, "{}.{} of {}", table.namespace, table.table, table.file.display()),
        }
    }
}

impl Catalog {
    /// The table of this name, `namespace.table`, in a REST catalog that is asked with `properties`
    /// as the `iceberg` libraries name them.
    pub(crate) async fn rest(url: &str, name: &str, mut properties: HashMap<String, String>) -> Result<Self> {
        let shown = Url::parse(url).ok().and_then(|mut url| {
            let is_plain = url.username().is_empty() && url.password().is_none();
            url.set_query(None);
            is_plain.then(|| url.to_string())
        });
        let Some(at) = shown else {
            let what = "a catalog's URL has no user or password; options 'token' and 'credential' are for that";
            return Err(IcebergError::Refused { at: "LOCATION".to_owned(), what: what.to_owned() });
        };
        let (namespace, table) = parts(name, &at)?;
        let namespace = NamespaceIdent::from_strs(namespace.split('.'));
        let said = |error: iceberg::Error| IcebergError::Catalog { at: at.clone(), said: error.message().to_owned() };
        let table = TableIdent::new(namespace.map_err(said)?, table.to_owned());
        properties.insert("uri".to_owned(), url.trim_end_matches('/').to_owned());
        // Files are read by ours; the library wants to have a way, too.
        let builder = RestCatalogBuilder::default().with_storage_factory(Arc::new(LocalFsStorageFactory));
        let catalog = Box::new(builder.load("pagecast", properties).await.map_err(said)?);
        Ok(Self::Rest { at, catalog, table })
    }

    /// The newest metadata file of the table.
    pub(crate) async fn metadata_file(&self) -> Result<String> {
        match self {
            Self::Rest { at, catalog, table } => {
                let said = |said: String| IcebergError::Catalog { at: at.clone(), said };
                let loaded = tokio::time::timeout(PATIENCE, catalog.load_table(table)).await;
                let loaded = loaded.map_err(|_| said(format!("nothing for {} seconds", PATIENCE.as_secs())))?;
                // Beside the message stands what the server sent, and that may hold secrets.
                let loaded = loaded.map_err(|error| said(format!("{} (table {table})", error.message())))?;
                let file = loaded.metadata_location().map(str::to_owned);
                file.ok_or_else(|| said(format!("table {table} has no metadata file")))
            }
            Self::Sql(table) => {
                let table = table.clone();
                let at = table.file.display().to_string();
                let found = tokio::task::spawn_blocking(move || table.metadata_file()).await;
                found.map_err(|error| IcebergError::Catalog { at, said: error.to_string() })?
            }
        }
    }

    /// The folder in which a catalog's tables may lie without more words: that of its file.
    pub(crate) fn folder(&self) -> Option<Location> {
        match self {
            Self::Rest { .. } => None,
            Self::Sql(table) => Location::of_path(table.file.parent()?),
        }
    }
}

/// A table of a SQL catalog, as pyiceberg and Iceberg's JDBC catalog keep them.
#[derive(Clone, Debug)]
pub(crate) struct InSqlite {
    file: PathBuf,
    /// One file may hold several catalogs.
    catalog: Option<String>,
    namespace: String,
    table: String,
}

impl InSqlite {
    pub(crate) fn new(file: &Path, catalog: Option<String>, name: &str) -> Result<Self> {
        let at = file.display().to_string();
        let file =
            file.canonicalize().map_err(|error| IcebergError::Missing { at: at.clone(), what: error.to_string() })?;
        let (namespace, table) = parts(name, &at)?;
        Ok(Self { file, catalog, namespace: namespace.to_owned(), table: table.to_owned() })
    }

    fn metadata_file(&self) -> Result<String> {
        let at = || self.file.display().to_string();
        let said = |error: rusqlite::Error| IcebergError::Catalog { at: at(), said: error.to_string() };
        let missing = |what: String| IcebergError::Missing { at: at(), what };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&self.file, flags).map_err(said)?;
        // The file may be anybody's: no function of its own runs, and a view may never end.
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(said)?;
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(said)?;
        database.busy_timeout(PATIENCE).map_err(said)?;
        let kinds = "SELECT count(*) FROM sqlite_schema WHERE name = 'iceberg_tables' AND type = 'table'";
        if database.query_row(kinds, [], |row| row.get::<_, i64>(0)).map_err(said)? == 0 {
            return Err(missing("it has no table iceberg_tables, so it is no catalog".to_owned()));
        }
        let sql = "SELECT catalog_name, metadata_location FROM iceberg_tables
            WHERE table_namespace = ?1 AND table_name = ?2 AND (?3 IS NULL OR catalog_name = ?3)";
        let mut query = database.prepare(sql).map_err(said)?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?));
        let found = query.query_map((&self.namespace, &self.table, &self.catalog), row).map_err(said)?;
        let found = found.collect::<rusqlite::Result<Vec<_>>>().map_err(said)?;
        let (namespace, table) = (&self.namespace, &self.table);
        match &found[..] {
            [(_, Some(file))] => Ok(file.clone()),
            [(_, None)] => Err(missing(format!("{namespace}.{table} has no metadata file"))),
            [] => Err(missing(format!("there is no table {namespace}.{table}"))),
            [(one, _), (other, _), ..] => {
                Err(missing(format!("catalogs {one} and {other} have {namespace}.{table}; option 'catalog' names one")))
            }
        }
    }
}

fn parts<'a>(name: &'a str, at: &str) -> Result<(&'a str, &'a str)> {
    name.rsplit_once('.').filter(|(namespace, table)| !namespace.is_empty() && !table.is_empty()).ok_or_else(|| {
        IcebergError::Refused { at: at.to_owned(), what: "option 'table' takes namespace.table".to_owned() }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_may_hold_several_catalogs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.db");
        let database = Connection::open(&file).unwrap();
        let find = |catalog: Option<&str>, name: &str| {
            InSqlite::new(&file, catalog.map(str::to_owned), name).unwrap().metadata_file().map_err(|e| e.to_string())
        };
        assert!(find(None, "n.t").unwrap_err().contains("it is no catalog"));
        database
            .execute_batch(
                "CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, metadata_location);
                 INSERT INTO iceberg_tables VALUES ('a', 'n.m', 't', '/1'), ('a', 'n', 't', '/2'), ('b', 'n', 't', '/3')",
            )
            .unwrap();
        assert_eq!(find(None, "n.m.t").unwrap(), "/1");
        assert_eq!(find(Some("b"), "n.t").unwrap(), "/3");
        assert!(find(None, "n.t").unwrap_err().contains("catalogs a and b"));
        assert!(find(Some("c"), "n.t").unwrap_err().contains("there is no table n.t"));
        assert!(InSqlite::new(&file, None, "t").unwrap_err().to_string().contains("namespace.table"));
        std::fs::write(&file, "no database at all, but some text that is long enough").unwrap();
        assert!(find(None, "n.t").is_err());
    }
}
