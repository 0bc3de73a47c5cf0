//! Local files of scans that another engine does not let be exchanged: such a scan keeps its own
//! readers, and these read column data through the session's store. For its files, that comes from
//! the pool, the same pages that all other scans read.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::physical_plan::{FileGroup, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use parking_lot::Mutex;

use crate::{Host, is_local};

/// More files than these are forgotten, and read past the pool again.
const MOST: usize = 1 << 16;

/// The local files of such scans.
#[derive(Default)]
pub(crate) struct KeptFiles(Mutex<HashSet<Path>>);

impl KeptFiles {
    /// Notes the files that scans below `plan` read.
    pub(crate) fn note(&self, plan: &Arc<dyn ExecutionPlan>) {
        let source = plan.downcast_ref::<DataSourceExec>();
        let scanned = source.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>());
        if let Some((config, _)) = scanned.filter(|(config, _)| is_local(&config.object_store_url)) {
            let files = config.file_groups.iter().flat_map(FileGroup::iter);
            let mut kept = self.0.lock();
            if kept.len() > MOST {
                kept.clear();
            }
            kept.extend(files.map(|file| file.object_meta.location.clone()));
        }
        plan.children().into_iter().for_each(|child| self.note(child));
    }

    fn has(&self, location: &Path) -> bool {
        self.0.lock().contains(location)
    }
}

/// The session's local files.
pub(crate) struct LocalFiles {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) host: Weak<Host>,
}

impl LocalFiles {
    /// Whether the session may read this. Listings tell names of what it may not.
    fn check(&self, location: &Path) -> Result<()> {
        let Some(host) = self.host.upgrade() else { return Ok(()) };
        let checked = host.bounds.check(&host.files.path_to_filesystem(location)?);
        checked.map_err(|error| Error::Generic { store: "pagecast", source: Box::new(error) })
    }
}

#[async_trait]
impl ObjectStore for LocalFiles {
    /// Readers of Parquet ask so for the columns of a row group.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let Some(host) = self.host.upgrade().filter(|host| host.kept_files.has(location)) else {
            self.check(location)?;
            return self.inner.get_ranges(location, ranges).await;
        };
        let failed = |source| Error::Generic { store: "pagecast", source };
        let relation = host.open_local(&host.files.path_to_filesystem(location)?);
        let relation = relation.map_err(|error| failed(error.into()))?;
        let read = relation.read(ranges, None).await.map_err(|error| failed(error.into()))?;
        Ok(read.data.into_iter().map(Bytes::from).collect())
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(location)?;
        self.inner.get_opts(location, options).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

impl fmt::Debug for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.inner)
    }
}

impl fmt::Display for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}
