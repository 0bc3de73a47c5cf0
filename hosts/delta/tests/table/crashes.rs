//! A writer that dies at any of its file operations leaves the old version or the new one.

use std::collections::HashMap;
use std::io::{self, Error, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use pagecast_delta::{Disk, LocalDisk, NewFile, Options, Table, Vacuum};

use super::data::{Session, options, table};

/// How the writer dies.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Death {
    /// Its process ends, before the operation.
    Before,
    /// Its process ends, after the operation, or after a part of what it wrote.
    After,
    /// The machine loses its power: what was not synced is gone.
    Power,
    /// The same, but names in the log, as it happens, came to storage.
    PowerKeepsLog,
}

/// What of a file is durable.
#[derive(Clone, Copy, Default)]
struct Durable {
    bytes: bool,
    name: bool,
}

#[derive(Debug)]
struct Dying {
    death: Death,
    state: Arc<Mutex<State>>,
}

struct State {
    /// Operations until death.
    left: usize,
    dead: bool,
    files: HashMap<PathBuf, Durable>,
    /// New ones, and whether their names are durable.
    folders: HashMap<PathBuf, bool>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} operations left", self.left)
    }
}

impl Dying {
    fn disk(death: Death, left: usize) -> Arc<Self> {
        let state = State { left, dead: false, files: HashMap::new(), folders: HashMap::new() };
        Arc::new(Self { death, state: Arc::new(Mutex::new(state)) })
    }

    fn operate<T>(&self, operate: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        operate_in(&self.state, self.death, operate)
    }

    fn is_dead(&self) -> bool {
        self.state.lock().unwrap().dead
    }

    /// What the next process finds.
    fn lose(&self) {
        let power = matches!(self.death, Death::Power | Death::PowerKeepsLog);
        for (folder, _) in self.state.lock().unwrap().folders.iter().filter(|(_, durable)| power && !*durable) {
            let _ = std::fs::remove_dir_all(folder);
        }
        for (path, durable) in &self.state.lock().unwrap().files {
            let in_log = path.parent().unwrap().ends_with("_delta_log");
            match self.death {
                Death::Before | Death::After => {}
                Death::PowerKeepsLog if in_log => {}
                _ if !path.exists() => {}
                _ if !durable.name => std::fs::remove_file(path).unwrap(),
                _ if !durable.bytes => std::fs::write(path, []).unwrap(),
                _ => {}
            }
        }
    }
}

fn operate_in<T>(
    state: &Mutex<State>,
    death: Death,
    operate: impl FnOnce(&mut State) -> io::Result<T>,
) -> io::Result<T> {
    let mut state = state.lock().unwrap();
    let dead = || Error::other("the process has ended");
    if state.dead {
        return Err(dead());
    }
    if state.left == 0 {
        state.dead = true;
        if death != Death::Before {
            operate(&mut state)?;
        }
        return Err(dead());
    }
    state.left -= 1;
    operate(&mut state)
}

impl Disk for Dying {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.operate(|state| {
            let file = LocalDisk.create(path)?;
            state.files.insert(path.to_owned(), Durable::default());
            let (state, death, path) = (Arc::clone(&self.state), self.death, path.to_owned());
            Ok(Box::new(DyingFile { file, state, death, path }) as _)
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(|state| {
            LocalDisk.link(from, to)?;
            let bytes = state.files.get(from).is_none_or(|file| file.bytes);
            state.files.insert(to.to_owned(), Durable { bytes, name: false });
            Ok(())
        })
    }

    fn names(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.names(path)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(|state| {
            LocalDisk.replace(from, to)?;
            let bytes = state.files.remove(from).is_none_or(|file| file.bytes);
            state.files.insert(to.to_owned(), Durable { bytes, name: false });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            state.files.remove(path);
            LocalDisk.remove(path)
        })
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            let new = path.ancestors().take_while(|folder| !folder.exists());
            state.folders.extend(new.map(|folder| (folder.to_owned(), false)));
            LocalDisk.create_folder(path)
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            let inside = state.files.iter_mut().filter(|(file, _)| file.parent() == Some(path));
            inside.for_each(|(_, durable)| durable.name = true);
            let inside = state.folders.iter_mut().filter(|(folder, _)| folder.parent() == Some(path));
            inside.for_each(|(_, durable)| *durable = true);
            LocalDisk.sync_folder(path)
        })
    }
}

struct DyingFile {
    file: Box<dyn NewFile>,
    path: PathBuf,
    death: Death,
    state: Arc<Mutex<State>>,
}

impl Write for DyingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let last = self.state.lock().unwrap().left == 0;
        let bytes = if last { &bytes[..bytes.len() / 2] } else { bytes };
        operate_in(&self.state, self.death, |state| {
            state.files.entry(self.path.clone()).or_default().bytes = false;
            self.file.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFile for DyingFile {
    fn sync(&mut self) -> io::Result<()> {
        operate_in(&self.state, self.death, |state| {
            state.files.entry(self.path.clone()).or_default().bytes = true;
            self.file.sync()
        })
    }
}

const ALL: &str = "SELECT count(*), sum(id), sum(part), max(text) FROM t";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn dying(disk: &Arc<Dying>) -> Options {
    let mut options = options();
    options.disk = Arc::clone(disk) as _;
    options
}

/// What is done until the writer dies; whether it was told that all is well.
#[derive(Clone, Copy, Debug)]
enum Work {
    Transaction,
    Compaction,
    Checkpoint,
    Vacuum,
}

/// Files of writers that died before.
const LEFT: usize = 6;

async fn work(work: Work, table: &Arc<Table>) -> bool {
    match work {
        Work::Transaction => {
            let Ok(transaction) = table.begin() else { return false };
            let own = Session::of(transaction.provider(), None, 1);
            own.insert(5000..5100).await;
            let changed = own.try_run("DELETE FROM t WHERE id % 10 = 1").await.is_ok()
                && own.try_run("UPDATE t SET part = 77 WHERE id < 20").await.is_ok();
            changed && transaction.commit().is_ok()
        }
        Work::Compaction => table.compact(0.0).is_ok(),
        Work::Checkpoint => table.checkpoint().is_ok(),
        Work::Vacuum => {
            let how = Vacuum { retention: Some(Duration::ZERO), force: true, ..Vacuum::default() };
            table.vacuum(how).is_ok_and(|gone| gone.len() == LEFT)
        }
    }
}

#[tokio::test]
async fn a_writer_that_dies_leaves_the_old_version_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = table(&folder.path().join("first"), &[300, 200]).await;
    let session = Session::new(&first, None);
    session.run("DELETE FROM t WHERE id % 7 = 0").await;
    let before = session.run(ALL).await;
    (0..LEFT).for_each(|i| std::fs::write(first.folder().join(format!("left-{i}.parquet")), "PAR1").unwrap());
    for doing in [Work::Transaction, Work::Compaction, Work::Checkpoint, Work::Vacuum] {
        // Without a death.
        let done = folder.path().join(format!("{doing:?}"));
        copy(first.folder(), &done);
        let whole = Table::open_with(&done, options()).unwrap();
        assert!(work(doing, &whole).await);
        let after = Session::new(&whole, None).run(ALL).await;
        let (old, new) = (first.newest().unwrap().version(), whole.newest().unwrap().version());
        for death in [Death::Before, Death::After, Death::Power, Death::PowerKeepsLog] {
            let mut seen = [0, 0];
            for left in 0.. {
                let place = folder.path().join(format!("{doing:?} {death:?} {left}"));
                copy(first.folder(), &place);
                let disk = Dying::disk(death, left);
                let told = work(doing, &Table::open_with(&place, dying(&disk)).unwrap()).await;
                let finished = !disk.is_dead();
                disk.lose();
                let found = Table::open_with(&place, options()).unwrap();
                let version = found.newest().unwrap().version();
                let session = Session::new(&found, None);
                let at = format!("{doing:?}, {death:?} at operation {left}");
                assert!(version == old || version == new, "{at}: version {version}");
                assert!(!told || version == new, "{at}: it was told that all is well");
                let wanted = if version == new { &after } else { &before };
                assert_eq!(session.run(ALL).await, *wanted, "{at}");
                assert_eq!(session.run(&ALL.replace(" t", &format!(" \"t@v{old}\" AS t"))).await, before, "{at}");
                // Life goes on.
                assert_eq!(session.number("DELETE FROM t WHERE id = 5").await, 1, "{at}");
                seen[usize::from(version == new)] += 1;
                std::fs::remove_dir_all(&place).unwrap();
                if finished {
                    break;
                }
            }
            println!("{doing:?}, {death:?}: {} times the old version, {} times the new one", seen[0], seen[1]);
            assert!(seen.iter().sum::<i32>() > 5);
        }
    }
}

/// A table that was made and said to be there is there, with the folders that were made for it.
/// One that was made in part can be made again.
#[tokio::test]
async fn a_new_table_is_there_with_its_folders_or_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let columns = arrow_schema();
    for death in [Death::Before, Death::After, Death::Power, Death::PowerKeepsLog] {
        for left in 0.. {
            let place = folder.path().join(format!("{death:?} {left}/of tables/table"));
            let disk = Dying::disk(death, left);
            let told = Table::create(&place, &columns, &[], dying(&disk)).is_ok();
            let finished = !disk.is_dead();
            disk.lose();
            let at = format!("{death:?} at operation {left}");
            match Table::open_with(&place, options()) {
                Ok(found) => assert_eq!(found.newest().unwrap().version(), 0, "{at}"),
                Err(fault) => {
                    assert!(!told, "{at}: it was told that the table is there: {fault}");
                    Table::create(&place, &columns, &[], options()).unwrap();
                }
            }
            if finished {
                break;
            }
        }
    }
}

fn arrow_schema() -> datafusion::arrow::datatypes::Schema {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    Schema::new(vec![Field::new("id", DataType::Int64, true)])
}

/// A disk far away: it makes a link, its answer is lost, and the request that is sent again finds
/// the link, or the answer is that nobody knows.
#[derive(Debug)]
struct FarDisk(io::ErrorKind);

impl Disk for FarDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        LocalDisk.create(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.link(from, to)?;
        Err(self.0.into())
    }

    fn names(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.names(path)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        LocalDisk.create_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        LocalDisk.sync_folder(path)
    }
}

#[tokio::test]
async fn a_link_that_was_made_and_said_to_fail_is_a_commit() {
    for kind in [io::ErrorKind::AlreadyExists, io::ErrorKind::TimedOut] {
        let folder = tempfile::tempdir().unwrap();
        drop(table(folder.path(), &[100]).await);
        let mut far = options();
        far.disk = Arc::new(FarDisk(kind));
        let table = Table::open_with(folder.path(), far).unwrap();
        let session = Session::new(&table, None);
        let (rows, version) = (session.number("SELECT count(*) FROM t").await, table.newest().unwrap().version());
        session.run("INSERT INTO t VALUES (1, 2, 'x')").await;
        assert_eq!(session.number("SELECT count(*) FROM t").await, rows + 1, "{kind}: a row is there twice, or not");
        assert_eq!(table.newest().unwrap().version(), version + 1, "{kind}");
    }
}
