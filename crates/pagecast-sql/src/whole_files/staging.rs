//! The stores of a statement that writes: what is written to them is seen once all of it is there.

use std::fmt;
use std::mem;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreRegistry;
use futures::FutureExt;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use pagecast::files::{NewFolders, WholeFile};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use url::Url;

/// Bytes of small objects that wait in memory. More of them go to their store at once, as parts.
const MOST_BYTES: usize = 64 << 20;

/// The stores of a session, for one statement.
#[derive(Debug)]
pub(super) struct Staging {
    inner: Arc<dyn ObjectStoreRegistry>,
    written: Arc<Mutex<Written>>,
    folders: NewFolders,
}

#[derive(Debug, Default)]
struct Written {
    files: Vec<Arc<WholeFile>>,
    /// Objects of which all parts are there, and those that were given up before.
    whole: Vec<Box<dyn MultipartUpload>>,
    parts: Vec<Box<dyn MultipartUpload>>,
    small: Vec<(Arc<dyn ObjectStore>, Path, PutPayload, PutOptions)>,
    bytes: usize,
    /// What failed first. DataFusion 55 says instead, where the last rows are written, that it has
    /// a bug.
    failure: Option<Error>,
}

impl Staging {
    pub(super) fn new(context: &TaskContext) -> Self {
        Self {
            inner: Arc::clone(&context.runtime_env().object_store_registry),
            written: Arc::default(),
            folders: NewFolders::default(),
        }
    }

    /// Puts everything in its place: files together, objects one after the other. Where that
    /// fails, what is not in its place yet stays as it was.
    pub(super) async fn commit(&self) -> Result<()> {
        let files = mem::take(&mut self.written.lock().files);
        if !files.is_empty() {
            blocking(move || WholeFile::finish(&files)).await?;
        }
        while let Some(mut upload) = self.next_upload() {
            upload.complete().await?;
        }
        let small = mem::take(&mut self.written.lock().small);
        for (store, location, payload, options) in small {
            store.put_opts(&location, payload, options).await?;
        }
        Ok(())
    }

    /// What failed first, of what was written.
    pub(super) fn failure(&self) -> Option<Error> {
        self.written.lock().failure.take()
    }

    fn next_upload(&self) -> Option<Box<dyn MultipartUpload>> {
        self.written.lock().whole.pop()
    }
}

/// Stores are told of what is given up where that can be; files go by themselves.
impl Drop for Written {
    fn drop(&mut self) {
        let (whole, parts) = (mem::take(&mut self.whole), mem::take(&mut self.parts));
        if let Ok(runtime) = Handle::try_current()
            && (!whole.is_empty() || !parts.is_empty())
        {
            runtime.spawn(async move {
                for mut upload in whole.into_iter().chain(parts) {
                    let _ = upload.abort().await;
                }
            });
        }
    }
}

impl ObjectStoreRegistry for Staging {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.inner.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> datafusion::common::Result<Arc<dyn ObjectStore>> {
        self.inner.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> datafusion::common::Result<Arc<dyn ObjectStore>> {
        let store = self.inner.get_store(url)?;
        let (written, folders) = (Arc::clone(&self.written), self.folders.clone());
        Ok(Arc::new(Staged { store, is_local: url.scheme() == "file", written, folders }))
    }
}

/// A store of which nothing is written yet. Reading goes past it.
#[derive(Debug)]
struct Staged {
    store: Arc<dyn ObjectStore>,
    is_local: bool,
    written: Arc<Mutex<Written>>,
    folders: NewFolders,
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Staged {
    async fn file(&self, location: &Path) -> Result<File> {
        let path = LocalFileSystem::new().path_to_filesystem(location)?;
        let folders = self.folders.clone();
        let file = blocking(move || WholeFile::create_in(&path, &folders)).await;
        Ok(File { file: Arc::new(noted(&self.written, file)?), offset: 0, written: Arc::clone(&self.written) })
    }
}

#[async_trait]
impl ObjectStore for Staged {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if self.is_local {
            let mut file = self.file(location).await?;
            file.put_part(payload).await?;
            return file.complete().await;
        }
        let length = payload.content_length();
        let waits = {
            let mut written = self.written.lock();
            let waits = written.bytes + length <= MOST_BYTES;
            written.bytes += if waits { length } else { 0 };
            waits
        };
        if waits {
            let small = (Arc::clone(&self.store), location.clone(), payload, options);
            self.written.lock().small.push(small);
        } else {
            let PutOptions { tags, attributes, extensions, .. } = options;
            let options = PutMultipartOptions { tags, attributes, extensions };
            let mut upload = self.put_multipart_opts(location, options).await?;
            upload.put_part(payload).await?;
            upload.complete().await?;
        }
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        if self.is_local {
            return Ok(Box::new(self.file(at).await?));
        }
        let upload = noted(&self.written, self.store.put_multipart_opts(at, options).await)?;
        Ok(Box::new(Upload { upload: Some(upload), written: Arc::clone(&self.written) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[std::ops::Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.store.get_ranges(location, ranges).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// An object on its way.
#[derive(Debug)]
struct Upload {
    /// Until all its parts are there.
    upload: Option<Box<dyn MultipartUpload>>,
    written: Arc<Mutex<Written>>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let written = Arc::clone(&self.written);
        match &mut self.upload {
            Some(upload) => upload.put_part(data).map(move |put| noted(&written, put)).boxed(),
            None => async { Err(failed("a part of an object that is complete".into())) }.boxed(),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.written.lock().whole.extend(self.upload.take());
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        match &mut self.upload {
            Some(upload) => upload.abort().await,
            None => Ok(()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.written.lock().parts.extend(self.upload.take());
    }
}

/// A file on its way.
#[derive(Debug)]
struct File {
    file: Arc<WholeFile>,
    offset: u64,
    written: Arc<Mutex<Written>>,
}

#[async_trait]
impl MultipartUpload for File {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (file, mut offset) = (Arc::clone(&self.file), self.offset);
        self.offset += data.content_length() as u64;
        let write = move || {
            for bytes in &data {
                file.write_at(bytes, offset)?;
                offset += bytes.len() as u64;
            }
            Ok(())
        };
        let written = Arc::clone(&self.written);
        blocking(write).map(move |put| noted(&written, put)).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.written.lock().files.push(Arc::clone(&self.file));
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Keeps the first failure for the statement's error.
fn noted<T>(written: &Mutex<Written>, done: Result<T>) -> Result<T> {
    done.map_err(|error| {
        let told = failed(error.to_string().into());
        written.lock().failure.get_or_insert(error);
        told
    })
}

/// Runs what waits for a disk. It is a task of DataFusion's, so that it counts as its statement's.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(work).await.map_err(|stopped| failed(stopped.into()))?;
    done.map_err(|error| failed(error.into()))
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Generic { store: "file", source }
}
