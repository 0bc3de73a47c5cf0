//! The tables of `pg_catalog` and their columns. The letter after a column is its type: a number of
//! an object, a flag, an int (4 or 2 bytes), one that may be null, a text, a point in time.

/// Tables that have rows, the same for all.
pub(super) const TABLES: &[(&str, &str)] = &[
    ("pg_am", "oid:o amname:t amhandler:o amtype:t"),
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
        "pg_proc",
        "oid:o proname:t pronamespace:o proowner:o prolang:o prokind:t prosecdef:b proisstrict:b proretset:b \
         provolatile:t proparallel:t proleakproof:b pronargs:s prorettype:o proargdefaults:t pronargdefaults:s provariadic:o procost:i proargtypes:t proallargtypes:t proargmodes:t proargnames:t prosrc:t \
         proacl:t",
    ),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    ("pg_get_keywords", "word:t catcode:t barelabel:b catdesc:t baredesc:t"),
    ("pg_tablespace", "oid:o spcname:t spcowner:o spcacl:t spcoptions:t"),
    (
        "pg_type",
        "oid:o typname:t typnamespace:o typowner:o typlen:s typbyval:b typtype:t typcategory:t typispreferred:b \
         typisdefined:b typdelim:t typrelid:o typsubscript:o typelem:o typarray:o typinput:o typoutput:o typreceive:o \
         typsend:o typmodin:o typmodout:o typanalyze:o typalign:t typstorage:t typnotnull:b typbasetype:o typtypmod:i \
         typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:t",
    ),
];

/// Tables of what is never there, with the columns that clients name.
pub(super) const EMPTY: &[(&str, &str)] = &[
    ("pg_aggregate", "aggfnoid:o aggkind:t aggnumdirectargs:s"),
    ("pg_authid", "oid:o rolname:t rolsuper:b rolcanlogin:b rolpassword:t"),
    ("pg_available_extensions", "name:t default_version:t installed_version:t comment:t"),
    ("pg_conversion", "oid:o conname:t connamespace:o conowner:o conforencoding:i contoencoding:i"),
    ("pg_db_role_setting", "setdatabase:o setrole:o setconfig:t"),
    ("pg_default_acl", "oid:o defaclrole:o defaclnamespace:o defaclobjtype:t defaclacl:t"),
    ("pg_indexes", "schemaname:t tablename:t indexname:t tablespace:t indexdef:t"),
    ("pg_largeobject_metadata", "oid:o lomowner:o lomacl:t"),
    ("pg_opfamily", "oid:o opfmethod:o opfname:t opfnamespace:o opfowner:o"),
    ("pg_policies", "schemaname:t tablename:t policyname:t permissive:t roles:t cmd:t qual:t with_check:t"),
    ("pg_prepared_xacts", "transaction:i gid:t prepared:T owner:t database:t"),
    ("pg_replication_slots", "slot_name:t plugin:t slot_type:t database:t active:b active_pid:n"),
    ("pg_rules", "schemaname:t tablename:t rulename:t definition:t"),
    ("pg_seclabel", "objoid:o classoid:o objsubid:i provider:t label:t"),
    ("pg_shdepend", "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:t"),
    ("pg_shseclabel", "objoid:o classoid:o provider:t label:t"),
    ("pg_stat_all_tables", "relid:o schemaname:t relname:t seq_scan:o n_live_tup:o"),
    ("pg_stat_gssapi", "pid:i gss_authenticated:b principal:t encrypted:b credentials_delegated:b"),
    ("pg_stat_replication", "pid:i usename:t application_name:t client_addr:t state:t"),
    ("pg_stat_ssl", "pid:i ssl:b version:t cipher:t bits:n"),
    ("pg_statio_user_tables", "relid:o schemaname:t relname:t heap_blks_read:o heap_blks_hit:o"),
    ("pg_stats", "schemaname:t tablename:t attname:t null_frac:i avg_width:i n_distinct:i"),
    ("pg_timezone_abbrevs", "abbrev:t utc_offset:t is_dst:b"),
    ("pg_ts_config", "oid:o cfgname:t cfgnamespace:o cfgowner:o cfgparser:o"),
    ("pg_ts_dict", "oid:o dictname:t dictnamespace:o dictowner:o dicttemplate:o"),
    ("pg_ts_parser", "oid:o prsname:t prsnamespace:o"),
    ("pg_ts_template", "oid:o tmplname:t tmplnamespace:o"),
    ("pg_user_mapping", "oid:o umuser:o umserver:o umoptions:t"),
    ("pg_user_mappings", "umid:o srvid:o srvname:t umuser:o usename:t umoptions:t"),
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
    ("pg_publication", "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b"),
    ("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    ("pg_publication_rel", "oid:o prpubid:o prrelid:o prqual:t prattrs:t"),
    ("pg_range", "rngtypid:o rngsubtype:o rngmultitypid:o"),
    ("pg_rewrite", "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b"),
    ("pg_sequence", "seqrelid:o seqtypid:o seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b"),
    ("pg_sequences", "schemaname:t sequencename:t sequenceowner:t data_type:t"),
    ("pg_shdescription", "objoid:o classoid:o description:t"),
    ("pg_stat_user_tables", "relid:o schemaname:t relname:t seq_scan:o n_live_tup:o"),
    ("pg_statistic_ext", "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:t stxkind:t"),
    ("pg_subscription", "oid:o subdbid:o subname:t subowner:o subenabled:b"),
    ("pg_trigger", "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:o tgtype:s tgenabled:t tgisinternal:b tgconstraint:o"),
    ("pg_views", "schemaname:t viewname:t viewowner:t definition:t"),
];

/// Tables that depend on who asks, and when.
pub(super) const LIVE: &[(&str, &str)] = &[
    (
        "pg_roles",
        "oid:o rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
         rolconnlimit:i rolpassword:t rolvaliduntil:t rolbypassrls:b rolconfig:t",
    ),
    (
        "pg_settings",
        "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t min_val:t max_val:t \
         enumvals:t boot_val:t reset_val:t sourcefile:t sourceline:n pending_restart:b",
    ),
    (
        "pg_stat_activity",
        "datid:o datname:t pid:i leader_pid:n usesysid:o usename:t application_name:t client_addr:t client_hostname:t \
         client_port:n backend_start:T xact_start:T query_start:T state_change:T wait_event_type:t wait_event:t state:t \
         backend_xid:n backend_xmin:n query_id:n query:t backend_type:t",
    ),
    (
        "pg_stat_database",
        "datid:o datname:t numbackends:i xact_commit:o xact_rollback:o blks_read:o blks_hit:o tup_returned:o \
         tup_fetched:o tup_inserted:o tup_updated:o tup_deleted:o conflicts:o temp_files:o temp_bytes:o deadlocks:o \
         stats_reset:T",
    ),
    (
        "pg_user",
        "usename:t usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:t useconfig:t",
    ),
];
