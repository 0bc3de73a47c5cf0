//! Tables in object stores: what `--data s3://bucket/prefix` names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use object_store::path::Path as Location;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, parse_url_opts};
use url::{Position, Url};

use crate::failure::usage;
use crate::tables::{Found, Table, encoded, has_parquet_name, key};

/// What clients of stores are told by the environment.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// A place in an object store.
pub(crate) struct Source {
    /// The store's own URL: `s3://bucket`.
    root: String,
    store: Arc<dyn ObjectStore>,
    prefix: Location,
    scheme: ObjectStoreScheme,
}

/// The place that `data` names, if it is a URL. `endpoint` is where the store is, if it is not
/// where its provider has it.
pub(crate) fn source(data: &Path, endpoint: Option<&str>) -> anyhow::Result<Option<Source>> {
    let Some(text) = data.to_str().filter(|text| text.contains("://")) else { return Ok(None) };
    let url = Url::parse(text).map_err(|error| usage(format!("no URL: {error}")))?;
    let shown = shown(&url);
    let (scheme, _) = ObjectStoreScheme::parse(&url)
        .map_err(|_| usage(format!("{shown}: no store begins like this; s3, gs, az, https and file do")))?;
    if let Some(feature) = missing_feature(&scheme) {
        bail!("{shown}: this pagecast was built without it; build it with `--features {feature}`");
    }
    let environment = std::env::vars().filter(|(name, _)| VARIABLES.iter().any(|known| name.starts_with(known)));
    let mut options: Vec<(String, String)> = environment.collect();
    if let Some(endpoint) = endpoint {
        options.push(("endpoint".to_owned(), endpoint.to_owned()));
        options.push(("allow_http".to_owned(), endpoint.starts_with("http://").to_string()));
    }
    let (store, prefix) = parse_url_opts(&url, options).map_err(|error| anyhow!("{shown}: {error}"))?;
    // Of Azure the part before the @ is the container; a password is nobody's.
    let mut root = url;
    let _ = root.set_password(None);
    let root = root[..Position::BeforePath].to_owned();
    Ok(Some(Source { root, store: store.into(), prefix, scheme }))
}

/// A URL as it may be shown: without a password, and without a query, which may be a signature.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

/// The feature of this command that a store needs and that it was built without.
fn missing_feature(scheme: &ObjectStoreScheme) -> Option<&'static str> {
    let (is_there, feature) = match scheme {
        ObjectStoreScheme::AmazonS3 => (cfg!(feature = "s3"), "s3"),
        ObjectStoreScheme::GoogleCloudStorage => (cfg!(feature = "gcs"), "gcs"),
        ObjectStoreScheme::MicrosoftAzure => (cfg!(feature = "azure"), "azure"),
        ObjectStoreScheme::Http => (cfg!(feature = "http"), "http"),
        _ => (true, ""),
    };
    (!is_there).then_some(feature)
}

impl Source {
    /// Makes the store known to a session, unless it has one for this root.
    pub(crate) fn register(&self, ctx: &SessionContext) -> anyhow::Result<()> {
        let root = Url::parse(&self.root)?;
        if ctx.runtime_env().object_store_registry.get_store(&root).is_err() {
            ctx.register_object_store(&root, Arc::clone(&self.store));
        }
        Ok(())
    }

    /// The tables at this place, by the rules of [`discover`](crate::tables::discover). One
    /// listing, and no object is read.
    pub(crate) async fn discover(&self) -> anyhow::Result<Found> {
        if has_parquet_name(Path::new(self.prefix.as_ref())) {
            let found = self.store.head(&self.prefix).await.map_err(|error| self.failed(&error))?;
            return Ok(Found { tables: vec![self.table(&found.location, &[&found], true)?], ..Found::default() });
        }
        let listed = self.store.list(Some(&self.prefix)).try_collect::<Vec<_>>().await;
        let mut listed = listed.map_err(|error| self.failed(&error))?;
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        let mut tables: BTreeMap<Location, Vec<&ObjectMeta>> = BTreeMap::new();
        let keyed = |meta: &ObjectMeta| self.below(meta).first().is_some_and(|part| key(part).is_some());
        let whole = listed.iter().any(|meta| self.below(meta).len() > 1 && keyed(meta));
        for meta in listed.iter().filter(|meta| has_parquet_name(Path::new(meta.location.as_ref()))) {
            let parts = self.below(meta);
            let hidden = parts.iter().any(|part| part.starts_with('.'));
            // Folders of keys belong to the table; other folders below it do not.
            let own = if whole { 0 } else { 1 };
            let folders = parts.iter().skip(own).take(parts.len().saturating_sub(1 + own));
            if hidden || folders.into_iter().any(|folder| key(folder).is_none()) {
                continue;
            }
            let table = if whole { self.prefix.clone() } else { self.entry(&parts[0])? };
            tables.entry(table).or_default().push(meta);
        }
        if tables.is_empty() {
            bail!("no Parquet file below {}/{}", self.root, self.prefix);
        }
        let mut found = Found::default();
        for (location, files) in tables {
            let table = self.table(&location, &files, files[0].location == location)?;
            if let Some(other) = found.tables.iter().find(|other| other.name == table.name) {
                bail!("{} and {} would both be table {}", other.path.display(), table.path.display(), table.name);
            }
            found.tables.push(table);
        }
        Ok(found)
    }

    /// What has this name at this place.
    fn entry(&self, name: &str) -> anyhow::Result<Location> {
        Ok(Location::parse(format!("{}/{name}", self.prefix))?)
    }

    /// The parts of an object's path below this place.
    fn below(&self, meta: &ObjectMeta) -> Vec<String> {
        let parts = meta.location.prefix_match(&self.prefix);
        parts.map_or(Vec::new(), |parts| parts.map(|part| part.as_ref().to_owned()).collect())
    }

    fn table(&self, location: &Location, files: &[&ObjectMeta], is_file: bool) -> anyhow::Result<Table> {
        let path = |location: &Location| PathBuf::from(format!("{}/{location}", self.root));
        let folder = path(location);
        let name = if is_file { folder.file_stem() } else { folder.file_name() };
        let name = name.map_or_else(|| self.root.clone(), |name| name.to_string_lossy().into_owned());
        let url = format!("{}/{}", self.root, encoded(location.as_ref().as_bytes()));
        let files = files.iter().map(|meta| path(&meta.location)).collect();
        Table::in_store(name, folder, url.trim_end_matches('/').to_owned(), files, is_file)
    }

    /// What went wrong, with what may help.
    fn failed(&self, error: &Error) -> anyhow::Error {
        let place = format!("{}/{}", self.root, self.prefix);
        let variables = match self.scheme {
            ObjectStoreScheme::AmazonS3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ObjectStoreScheme::GoogleCloudStorage => "GOOGLE_SERVICE_ACCOUNT",
            ObjectStoreScheme::MicrosoftAzure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
            _ => return anyhow!("{place}: {error}"),
        };
        match error {
            Error::NotFound { .. } => anyhow!("{place}: there is no such bucket or object: {error}"),
            _ => anyhow!("{place}: {error}; are {variables} right?"),
        }
    }
}
