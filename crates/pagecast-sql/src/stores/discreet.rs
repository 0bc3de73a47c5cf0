//! A store whose errors may be shown to anybody.
//!
//! Clients of stores repeat a request in their errors, and servers do in their answers. Whoever
//! asks a store may pass its error on, so that none holds a secret from the start.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use pagecast::storage::{store_message, without_secrets};

use super::credentials::Settings;
use crate::place::{Login, Secret};

/// Shorter ones would be found in words that are none.
const SHORTEST: usize = 4;

/// What must not be seen of a store.
#[derive(Clone, Default)]
pub(super) struct Hidden(Arc<[Secret]>);

impl Hidden {
    /// The keys among the settings, and a password.
    pub(super) fn of(settings: &Settings, login: Option<&Login>) -> Self {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            let is_name = name.ends_with("KEY_ID") || name.ends_with("_FILE") || name.ends_with("_URI");
            !is_name && ["KEY", "SECRET", "TOKEN", "PASSWORD", "SAS"].iter().any(|part| name.contains(part))
        };
        let keys = settings.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| Secret::new(value.as_str()));
        let mut secrets: Vec<_> = keys.chain(login.iter().flat_map(|login| login.parts.clone())).collect();
        secrets.retain(|secret| secret.reveal().len() >= SHORTEST);
        // One that holds another goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        Self(secrets.into())
    }

    /// The text without what must not be seen.
    pub(super) fn in_text(&self, text: &str) -> String {
        let text = without_secrets(text);
        self.0.iter().fold(text, |text, secret| text.replace(secret.reveal(), "***"))
    }

    fn of_error(&self, error: Error) -> Error {
        let said = |error: &(dyn std::error::Error + Send + Sync)| {
            let as_store = Error::NotSupported { source: error.to_string().into() };
            let text = store_message(&as_store);
            let text = text.strip_prefix("Operation not supported: ").unwrap_or(&text);
            Box::from(self.in_text(text)) as Box<dyn std::error::Error + Send + Sync>
        };
        match error {
            Error::Generic { store, source } => Error::Generic { store, source: said(&*source) },
            Error::NotFound { path, source } => Error::NotFound { path: self.in_text(&path), source: said(&*source) },
            Error::AlreadyExists { path, source } => {
                Error::AlreadyExists { path: self.in_text(&path), source: said(&*source) }
            }
            Error::Precondition { path, source } => {
                Error::Precondition { path: self.in_text(&path), source: said(&*source) }
            }
            Error::NotModified { path, source } => {
                Error::NotModified { path: self.in_text(&path), source: said(&*source) }
            }
            Error::PermissionDenied { path, source } => {
                Error::PermissionDenied { path: self.in_text(&path), source: said(&*source) }
            }
            Error::Unauthenticated { path, source } => {
                Error::Unauthenticated { path: self.in_text(&path), source: said(&*source) }
            }
            Error::NotSupported { source } => Error::NotSupported { source: said(&*source) },
            Error::NotImplemented { operation, implementer } => {
                Error::NotImplemented { operation, implementer: self.in_text(&implementer) }
            }
            other => Error::Generic { store: "store", source: said(&other) },
        }
    }
}

/// `inner`, whose errors hide what must not be seen.
#[derive(Clone)]
pub(super) struct DiscreetStore {
    pub(super) inner: Arc<dyn ObjectStore>,
    pub(super) hidden: Hidden,
}

impl DiscreetStore {
    fn hide<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.hidden.of_error(error))
    }

    fn hide_each<T: 'static>(&self, results: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
        let hidden = self.hidden.clone();
        results.map(move |result| result.map_err(|error| hidden.of_error(error))).boxed()
    }
}

#[async_trait]
impl ObjectStore for DiscreetStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut found = self.hide(self.inner.get_opts(location, options).await)?;
        if let GetResultPayload::Stream(bytes) = found.payload {
            found.payload = GetResultPayload::Stream(self.hide_each(bytes));
        }
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.hide(self.inner.get_ranges(location, ranges).await)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.hide_each(self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.hide_each(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.hide(self.inner.list_with_delimiter(prefix).await)
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.hide(self.inner.put_opts(location, payload, options).await)
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.hide(self.inner.put_multipart_opts(at, options).await)?;
        Ok(Box::new(DiscreetUpload { inner, hidden: self.hidden.clone() }))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.hide_each(self.inner.delete_stream(locations))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.hide(self.inner.copy_opts(from, to, options).await)
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.hide(self.inner.rename_opts(from, to, options).await)
    }
}

/// An object on its way to such a store.
struct DiscreetUpload {
    inner: Box<dyn MultipartUpload>,
    hidden: Hidden,
}

#[async_trait]
impl MultipartUpload for DiscreetUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (put, hidden) = (self.inner.put_part(data), self.hidden.clone());
        async move { put.await.map_err(|error| hidden.of_error(error)) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.inner.complete().await.map_err(|error| self.hidden.of_error(error))
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await.map_err(|error| self.hidden.of_error(error))
    }
}

impl fmt::Debug for DiscreetUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiscreetUpload")
    }
}

impl fmt::Debug for DiscreetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiscreetStore({self})")
    }
}

impl fmt::Display for DiscreetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hidden.in_text(&self.inner.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_loses_secrets() {
        let settings = [("AWS_SECRET_ACCESS_KEY", "hunter2"), ("AWS_ACCESS_KEY_ID", "visible"), ("sas_key", "abc")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let hidden = Hidden::of(&settings, None);
        let error = Error::NotFound { path: "a".into(), source: "visible, hunter2, abc http://me@host/?x=1".into() };
        let error = hidden.of_error(error);
        assert!(matches!(error, Error::NotFound { .. }));
        assert_eq!(error.to_string(), "Object at location a not found: visible, ***, abc http://host/");
    }
}
