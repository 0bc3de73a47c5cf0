//! Temporary files: what sorts, joins and aggregates may not keep in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DEFAULT_MAX_TEMP_DIRECTORY_SIZE, DiskManagerBuilder};
use datafusion::execution::{SpillFile, TaskContext, TempFileFactory};
use datafusion::prelude::SessionConfig;
use pagecast::files::Owned;

use crate::Classed;
use crate::error::{OpenError, Setting, misuse};
use crate::temporary_file::{OVER_THE_LIMIT, Quota, TemporaryFile};

/// Each session has a folder of such a name. That of a process that was killed goes with the next.
const NAME: &str = "pagecast-spill-";

/// A session's folder for temporary files, which it has for as long as it may write there.
#[derive(Debug)]
struct Folder {
    parent: PathBuf,
    own: Owned,
    quota: Arc<Quota>,
}

impl TempFileFactory for Folder {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let make = || tempfile::Builder::new().tempfile_in(self.own.path());
        let made = make().or_else(|error| match error.kind() {
            // Somebody has swept it.
            io::ErrorKind::NotFound => fs::create_dir_all(self.own.path()).and_then(|()| make()),
            _ => Err(error),
        });
        Ok(Arc::new(TemporaryFile::new(made.map_err(DataFusionError::IoError)?, Arc::clone(&self.quota))))
    }
}

/// The session's folder in `parent`, or in that of the system, and their bytes at most.
///
/// # Errors
///
/// No folder can be made in `parent`.
pub(crate) fn folder(
    parent: Option<PathBuf>,
    most: Option<u64>,
    config: SessionConfig,
) -> Result<(DiskManagerBuilder, SessionConfig), OpenError> {
    let most = most.unwrap_or(DEFAULT_MAX_TEMP_DIRECTORY_SIZE);
    let files = DiskManagerBuilder::default().with_max_temp_directory_size(most);
    let is_named = parent.is_some();
    let parent = parent.unwrap_or_else(std::env::temp_dir);
    match Owned::folder(&parent, NAME) {
        Ok(own) => {
            let folder = Arc::new(Folder { parent, own, quota: Arc::new(Quota::new(most)) });
            let config = config.with_extension(Arc::clone(&folder));
            Ok((files.with_temp_file_factory(folder), config))
        }
        Err(error) if is_named => {
            let what = format!("no temporary files can be made in {}: {error}", parent.display());
            Err(OpenError::of(Setting::Temp, misuse(what)))
        }
        // Whoever needs one is told why there is none.
        Err(_) => Ok((files, config)),
    }
}

/// An error of a session's statement, which says where temporary files had no room.
pub(crate) fn explained(session: &TaskContext, error: DataFusionError) -> DataFusionError {
    let Some(fault) = of_files(error.find_root()) else { return error };
    let folder = session.session_config().get_extension::<Folder>();
    let folder = folder.map_or_else(std::env::temp_dir, |folder| folder.parent.clone());
    let folder = folder.display();
    if fault.to_string().contains(OVER_THE_LIMIT) {
        let most = session.runtime_env().disk_manager.max_temp_directory_size();
        let what = format!(
            "what does not fit the memory limit would take more than {most} bytes in {folder}, the limit of \
             temporary files (max-temp): raise it, or give statements more memory"
        );
        return Classed::new("53400", what).into();
    }
    if matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        let what = format!(
            "{folder} has no room for what does not fit the memory limit ({fault}): name another folder (temp), \
             or give statements more memory"
        );
        return Classed::new("53100", what).into();
    }
    error
}

fn of_files(root: &DataFusionError) -> Option<&io::Error> {
    match root {
        DataFusionError::IoError(error) => Some(error),
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::IoError(_, error) => Some(error),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionContext;
    use futures::TryStreamExt;

    use super::*;
    use crate::patient;

    /// A session with its files in `parent`.
    fn session(parent: &tempfile::TempDir, most: Option<u64>) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(1);
        let config = config.with_sort_spill_reservation_bytes(100 << 10);
        let (files, config) = folder(Some(parent.path().to_owned()), most, config).unwrap();
        let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(files).with_memory_limit(2 << 20, 1.0);
        SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap())
    }

    #[tokio::test]
    async fn files_have_a_folder_and_a_limit() {
        let parent = tempfile::tempdir().unwrap();
        let sql = "SELECT value, repeat('x', 100) AS s FROM range(100000) ORDER BY value % 1009, value";
        let rows = async |ctx: &SessionContext| {
            let rows: Vec<_> = patient::execute(ctx.sql(sql).await?).await?.try_collect().await?;
            Ok::<_, DataFusionError>(rows.iter().map(|batch| batch.num_rows()).sum::<usize>())
        };
        let enough = session(&parent, None);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        assert_eq!(rows(&enough).await.unwrap(), 100_000);
        let error = rows(&session(&parent, Some(1 << 20))).await.unwrap_err();
        let class = Classed::of(&error).unwrap();
        let folder = parent.path().display().to_string();
        assert!(class.code == "53400" && class.message.contains("1048576 bytes"), "{error}");
        assert!(class.message.contains(&folder) && class.message.contains("max-temp"), "{error}");
        // What was swept away comes again.
        for own in fs::read_dir(parent.path()).unwrap() {
            fs::remove_dir_all(own.unwrap().path()).unwrap();
        }
        assert_eq!(rows(&enough).await.unwrap(), 100_000);
        // By a limit that is set, DataFusion's own files are in their place.
        enough.sql("SET datafusion.runtime.max_temp_directory_size = '1M'").await.unwrap();
        let error = rows(&enough).await.unwrap_err();
        assert!(Classed::of(&error).is_some_and(|class| class.code == "53400"), "{error}");
        // With the sessions go their folders.
        drop(enough);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = folder(Some(file.path().to_owned()), None, SessionConfig::new()).err().unwrap();
        assert!(refused.setting == Some(Setting::Temp) && refused.cause.to_string().contains("temporary files"));
    }

    #[test]
    fn a_full_disk_has_a_name() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let arrow = ArrowError::IoError("IO error: no room".into(), full());
        let session = SessionContext::new().task_ctx();
        let quota = io::Error::from(rustix::io::Errno::DQUOT);
        let arrow = DataFusionError::ArrowError(Box::new(arrow), None);
        for error in [DataFusionError::IoError(full()), DataFusionError::IoError(quota), arrow] {
            let class = Classed::of(&explained(&session, error)).unwrap().clone();
            assert!(class.code == "53100" && class.message.contains(&*std::env::temp_dir().to_string_lossy()));
        }
        let other = DataFusionError::IoError(io::ErrorKind::NotFound.into());
        assert!(Classed::of(&explained(&session, other)).is_none());
    }
}
