//! Tables in object stores: what `--data s3://bucket/prefix` names.

mod credentials;
mod discreet;
mod on_demand;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use object_store::http::HttpBuilder;
use object_store::path::Path as Location;
use object_store::{
    ClientOptions, Error, HeaderMap, HeaderValue, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme,
    parse_url_opts,
};
use pagecast::storage::{MeteredStore, StoreModel, store_message, without_secrets};
use url::{Position, Url};

use self::discreet::{DiscreetStore, Hidden};
pub(crate) use self::on_demand::OnDemand;
use crate::error::{OpenError, Setting, misuse};
use crate::formats::Format;
use crate::keys::{is_hidden, key};
use crate::logs::{Log, LogFormat};
use crate::place::{Login, Place};
use crate::tables::{self, Closed, Found, Table, encoded};

/// A place in an object store.
pub struct Source {
    /// The store's own URL: `s3://bucket`.
    root: String,
    store: Arc<dyn ObjectStore>,
    prefix: Location,
    scheme: ObjectStoreScheme,
    has_login: bool,
    model: Option<StoreModel>,
}

/// The place that `data` names, if it is a URL. `endpoint` is where the store is, if it is not
/// where its provider has it.
pub(crate) fn source(data: &Place, endpoint: Option<&str>) -> anyhow::Result<Option<Source>> {
    let Some(url) = data.url() else { return Ok(None) };
    let shown = data.display();
    let url = url.map_err(|why| misuse(format!("{shown}: {why}")))?;
    let (scheme, prefix) = ObjectStoreScheme::parse(url)
        .map_err(|_| misuse(format!("{shown}: no store begins like this; s3, gs, az, https and file do")))?;
    let mut settings = credentials::settings(scheme == ObjectStoreScheme::AmazonS3);
    if let Some(endpoint) = endpoint {
        check_endpoint(endpoint)?;
        credentials::set_endpoint(&mut settings, &scheme, endpoint);
    }
    if scheme == ObjectStoreScheme::AmazonS3
        && let Some(missing) = credentials::missing_of_s3(&settings)
    {
        bail!("{shown}: {missing}");
    }
    let is_place = |name: &str| name.contains("endpoint") || name.contains("base_url");
    let is_open =
        |(name, value): (&String, &String)| is_place(&name.to_ascii_lowercase()) && value.starts_with("http:");
    if url.scheme() == "http" || settings.iter().any(is_open) {
        settings.insert("allow_http".to_owned(), "true".to_owned());
    }
    let hidden = Hidden::of(&settings, data.login());
    let root = url[..Position::BeforePath].to_owned();
    let made = match data.login() {
        Some(login) => with_login(&root, login).map(|store| (store, prefix)),
        None => parse_url_opts(url, settings),
    };
    let (store, prefix) = made.map_err(|error| {
        let error = explained(&shown.to_string(), &scheme, &error);
        anyhow!(hidden.in_text(&error.to_string()))
    })?;
    let store: Arc<dyn ObjectStore> = Arc::new(DiscreetStore { inner: store.into(), hidden });
    Ok(Some(Source { root, store, prefix, scheme, has_login: data.login().is_some(), model: None }))
}

/// Whether a statement may name a place: plans and histories show statements.
pub(crate) fn check_login(place: &Place) -> anyhow::Result<()> {
    if place.has_login() {
        bail!("a statement may hold no password; --data may");
    }
    Ok(())
}

/// A server of files that is told who asks, with each request. Its client has no such setting.
fn with_login(root: &str, login: &Login) -> object_store::Result<Box<dyn ObjectStore>> {
    let unfit = |error| Error::Generic { store: "HTTP", source: Box::new(error) };
    let mut basic = HeaderValue::from_str(&format!("Basic {}", login.basic.reveal())).map_err(unfit)?;
    basic.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert("authorization", basic);
    let client = ClientOptions::new().with_allow_http(true).with_default_headers(headers);
    Ok(Box::new(HttpBuilder::new().with_url(root).with_client_options(client).build()?))
}

/// Whoever asks is named by variables, and not by the URL of the store.
fn check_endpoint(endpoint: &str) -> anyhow::Result<()> {
    let wrong = Url::parse(endpoint).is_ok_and(|url| {
        !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some()
    });
    if wrong || without_secrets(endpoint) != endpoint {
        return Err(misuse("its URL may hold no user, no password and no query; credentials come from variables"));
    }
    Ok(())
}

impl Source {
    /// The place that `data` names, if it is a URL. `endpoint` is where the store is, if it is not
    /// where its provider has it.
    ///
    /// # Errors
    ///
    /// What is no URL, or one of a store that nobody knows; an endpoint without a URL.
    pub fn of(data: &Place, endpoint: Option<&str>) -> Result<Option<Self>, OpenError> {
        if let Some(Err(error)) = endpoint.map(check_endpoint) {
            return Err(OpenError::of(Setting::Endpoint, error));
        }
        let found = source(data, endpoint).map_err(|error| OpenError::of(Setting::Data, error))?;
        let is_local = found.as_ref().is_none_or(Self::is_local);
        let is_http = found.as_ref().is_some_and(|source| source.scheme == ObjectStoreScheme::Http);
        if endpoint.is_some() && (is_local || is_http) {
            let what =
                if is_http { "on a server that they name" } else { "in a folder of this machine, and in no store" };
            return Err(OpenError::of(Setting::Endpoint, misuse(format!("the data are {what}"))));
        }
        Ok(found)
    }

    /// The same place, read as a store over a network, of the declared speed if there is one. A
    /// folder of this machine becomes a store of its own, since a pool reads files without one.
    pub fn over_network(self, model: Option<StoreModel>) -> Self {
        let root = if self.is_local() { "declared://disk".to_owned() } else { self.root };
        Self { root, model, ..self }
    }

    /// Whether its objects are files, which a pool reads without the store.
    pub fn is_local(&self) -> bool {
        self.root == "file://"
    }

    /// One line for reports.
    pub fn describe(&self) -> String {
        match &self.model {
            Some(model) => format!("declared: {model}; objects of {}", self.root),
            None => format!("objects of {}", self.root),
        }
    }

    /// Makes the store known to a session, with counters at 0.
    pub fn register(&self, ctx: &SessionContext) -> anyhow::Result<MeteredStore> {
        let store = MeteredStore::new(Arc::clone(&self.store), self.model);
        // Files of this machine are DataFusion's to open, and nobody asks what they cost.
        let registered = if self.is_local() { Arc::clone(&self.store) } else { Arc::new(store.clone()) as _ };
        ctx.register_object_store(&Url::parse(&self.root)?, registered);
        Ok(store)
    }

    /// The objects at this place, by name. One request.
    pub async fn list(&self) -> anyhow::Result<Vec<ObjectMeta>> {
        if self.is_object() {
            let found = self.store.head(&self.prefix).await.map_err(|error| self.failed(&error))?;
            return Ok(vec![found]);
        }
        let listed = self.store.list(Some(&self.prefix)).try_collect::<Vec<_>>().await;
        let mut listed = listed.map_err(|error| self.failed(&error))?;
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    /// Whether the place is an object and no folder.
    fn is_object(&self) -> bool {
        Format::of(Path::new(self.prefix.as_ref())).is_some()
    }

    /// An object's name for people.
    pub fn name_of(&self, meta: &ObjectMeta) -> String {
        self.url_of(&meta.location)
    }

    /// The tables at this place, by the rules of [`discover`](crate::tables::discover). One
    /// listing, and no object of a store is read.
    pub async fn discover(&self) -> anyhow::Result<Found> {
        self.discover_allowing(&[]).await
    }

    /// [`discover`](Self::discover), where tables whose metadata name their files may have some in
    /// these folders, too.
    pub(crate) async fn discover_allowing(&self, allowed: &[PathBuf]) -> anyhow::Result<Found> {
        match self.is_local() {
            true => tables::discover_allowing(&Path::new("/").join(self.prefix.as_ref()), allowed),
            false => self.found(allowed, false).await,
        }
    }

    /// What is at this place, by the rules of [`tables::at`]: a folder is one table.
    pub(crate) async fn at(&self) -> anyhow::Result<Found> {
        match self.is_local() {
            true => tables::at(&Path::new("/").join(self.prefix.as_ref())),
            false => self.found(&[], true).await,
        }
    }

    async fn found(&self, allowed: &[PathBuf], is_one: bool) -> anyhow::Result<Found> {
        let listed = self.list().await?;
        if self.is_object() {
            let table = self.table(&listed[0].location, &[&listed[0]])?;
            return Ok(Found { tables: vec![table], ..Found::default() });
        }
        let logs = self.logs(&listed)?;
        let mut tables: BTreeMap<Location, Vec<&ObjectMeta>> = BTreeMap::new();
        let keyed = |meta: &ObjectMeta| self.below(meta).first().is_some_and(|part| key(part).is_some());
        let whole = is_one || listed.iter().any(|meta| self.below(meta).len() > 1 && keyed(meta));
        for meta in listed.iter().filter(|meta| format(meta).is_some() && !logs.contains_key(&self.prefix)) {
            let parts = self.below(meta);
            if parts.iter().any(|part| is_hidden(part)) {
                continue;
            }
            let table = if whole { self.prefix.clone() } else { self.entry(&parts[0])? };
            if !logs.contains_key(&table) {
                tables.entry(table).or_default().push(meta);
            }
        }
        if tables.is_empty() && logs.is_empty() {
            bail!(
                "no Parquet file below {}/{}; each *.parquet, *.csv, *.json or *.arrow object, folder of them or \
                 Iceberg table is a table",
                self.root,
                self.prefix
            );
        }
        let (mut found, mut closed): (BTreeMap<String, Table>, _) = (BTreeMap::new(), Vec::new());
        for (location, files) in tables {
            let table = match self.inner_log(&location, &listed) {
                Some(inner) => Err(tables::table_of_its_own(&inner, &self.url_of(&location))),
                None => self.table(&location, &files),
            };
            match table {
                Ok(table) => add(&mut found, table)?,
                Err(fault) => closed.push(Closed { name: self.name(Path::new(location.as_ref()).file_name()), fault }),
            }
        }
        for (location, format) in logs {
            let url = self.url_of(&location);
            let name = self.name(Path::new(&url).file_name());
            match Log::in_store(format, url.clone(), allowed) {
                Ok(log) => add(&mut found, Table::of_log_in_store(name, url, log))?,
                Err(fault) => closed.push(Closed { name, fault }),
            }
        }
        Ok(Found { tables: found.into_values().collect(), closed })
    }

    /// The places here that metadata say the files of.
    fn logs(&self, listed: &[ObjectMeta]) -> anyhow::Result<BTreeMap<Location, LogFormat>> {
        let mut logs = BTreeMap::new();
        for meta in listed {
            let parts = self.below(meta);
            if let Some(format) = LogFormat::of(&parts) {
                return Ok(BTreeMap::from([(self.prefix.clone(), format)]));
            }
            if let Some((table, parts)) = parts.split_first()
                && let Some(format) = LogFormat::of(parts)
            {
                logs.insert(self.entry(table)?, format);
            }
        }
        Ok(logs)
    }

    /// A place below a table of which metadata say which files it has.
    fn inner_log(&self, table: &Location, listed: &[ObjectMeta]) -> Option<String> {
        listed.iter().find_map(|meta| {
            let parts: Vec<String> = meta.location.prefix_match(table)?.map(|part| part.as_ref().to_owned()).collect();
            let depth = (1..parts.len()).find(|&depth| LogFormat::of(&parts[depth..]).is_some())?;
            Some(format!("{}/{}", self.url_of(table), parts[..depth].join("/")))
        })
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

    /// The table of these objects, which is one of them or the folder of them.
    fn table(&self, location: &Location, files: &[&ObjectMeta]) -> anyhow::Result<Table> {
        let is_file = files.iter().any(|meta| meta.location == *location);
        let path = |location: &Location| PathBuf::from(self.url_of(location));
        let folder = path(location);
        let name = self.name(if is_file { Format::stem(&folder) } else { folder.file_name() });
        let url = format!("{}/{}", self.root, encoded(location.as_ref().as_bytes()));
        let files = Format::of_all(files.iter().map(|meta| path(&meta.location)).collect())?;
        let files = files.with_context(|| format!("{} is of no known format", folder.display()))?;
        Table::in_store(name, folder, url.trim_end_matches('/').to_owned(), files, is_file)
    }

    fn url_of(&self, location: &Location) -> String {
        format!("{}/{location}", self.root)
    }

    /// A table's name, by that of a folder or object, if it has one.
    fn name(&self, name: Option<&OsStr>) -> String {
        name.map_or_else(|| self.root.clone(), |name| name.to_string_lossy().into_owned())
    }

    /// What went wrong, with what may help.
    fn failed(&self, error: &Error) -> anyhow::Error {
        let place = format!("{}/{}", self.root, self.prefix);
        if self.has_login && matches!(error, Error::Unauthenticated { .. } | Error::PermissionDenied { .. }) {
            return anyhow!("{place}: its server refuses this user and password: {}", store_message(error));
        }
        explained(&place, &self.scheme, error)
    }
}

/// What a store or its client says of a place, with what may help.
fn explained(place: &str, scheme: &ObjectStoreScheme, error: &Error) -> anyhow::Error {
    let said = store_message(error);
    let help = match scheme {
        _ if matches!(error, Error::NotFound { .. }) => "there is no such bucket or object",
        // Asked for a credential, a client without one names the service that it looked for.
        _ if said.contains("error sending request") && !said.contains("etadata/") => {
            "it cannot be reached; is --endpoint right?"
        }
        ObjectStoreScheme::AmazonS3 => credentials::at_fault(&said),
        ObjectStoreScheme::GoogleCloudStorage => {
            "is GOOGLE_SERVICE_ACCOUNT (a file) or GOOGLE_SERVICE_ACCOUNT_KEY (its text) right?"
        }
        ObjectStoreScheme::MicrosoftAzure => {
            "are AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_KEY) right?"
        }
        ObjectStoreScheme::Http if said.contains("401 Unauthorized") => {
            "its server wants a password: http://USER:PASSWORD@host/..."
        }
        ObjectStoreScheme::Http if said.contains("PROPFIND") => "its server lists no folders; name a file",
        _ => return anyhow!("{place}: {said}"),
    };
    anyhow!("{place}: {help}: {said}")
}

/// Adds a table. Of two of one name that of Parquet files counts.
fn add(found: &mut BTreeMap<String, Table>, table: Table) -> anyhow::Result<()> {
    match found.get(&table.name) {
        Some(other) if other.format == table.format => {
            let (other, table, name) = (other.path.display(), table.path.display(), &table.name);
            bail!("{other} and {table} would both be table {name}");
        }
        Some(other) if other.format < table.format => {}
        _ => _ = found.insert(table.name.clone(), table),
    }
    Ok(())
}

fn format(meta: &ObjectMeta) -> Option<Format> {
    Format::of(Path::new(meta.location.as_ref()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_error_says_which_setting_may_be_wrong_and_no_secret() {
        let said = |scheme, text: &str| {
            let error = Error::Generic { store: "test", source: text.into() };
            explained("gs://bucket/folder", &scheme, &error).to_string()
        };
        for (scheme, text, word) in [
            (ObjectStoreScheme::GoogleCloudStorage, "Error reading pem file", "GOOGLE_SERVICE_ACCOUNT_KEY"),
            (ObjectStoreScheme::MicrosoftAzure, "Invalid Access Key", "AZURE_STORAGE_ACCOUNT_KEY"),
            (ObjectStoreScheme::AmazonS3, "<Code>ExpiredToken</Code>", "AWS_SESSION_TOKEN is too old"),
            (ObjectStoreScheme::AmazonS3, "HTTP error: error sending request", "--endpoint"),
            (ObjectStoreScheme::Http, "GET https://me:hunter2@host/x?sig=hunter2 in 2 s: no", "GET https://host/x in"),
        ] {
            let said = said(scheme, text);
            assert!(said.starts_with("gs://bucket/folder: ") && said.contains(word), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
        for wrong in ["http://me:hunter2@host", "http://host/?sig=hunter2", "https://hunter2@host/"] {
            let error = check_endpoint(wrong).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(check_endpoint("http://127.0.0.1:7070").is_ok());
    }
}
