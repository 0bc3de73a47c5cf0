//! Who may know whom: the layers inside the pool and the predictor, and the "never" column of
//! ARCHITECTURE.md.
//!
//! It reads sources and manifests, with no more grammar than it needs: code is what is left of a
//! file without comments and without items for tests.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sources::uses::{Module, modules, uses};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files under a folder whose names end in `.extension`, sorted.
fn files_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_in(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// A file without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = sources::without_tests(&text).into_iter();
    lines.map(|line| line.find("//").map_or(line, |comment| &line[..comment])).fold(String::new(), |mut code, line| {
        code.push_str(line);
        code.push('\n');
        code
    })
}

/// The words of code: names and keywords.
fn words(code: &str) -> BTreeSet<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// Fails if of the modules in `within` of a crate one uses another that comes after it in `order`.
fn check_layers(source: &Path, within: &[&str], order: &[&str]) {
    let within: Module = within.iter().map(|&name| name.to_owned()).collect();
    let rank = |module: &str| order.iter().position(|&other| other == module);
    let names: BTreeSet<String> = modules(source)
        .into_keys()
        .filter(|module| module.starts_with(&within))
        .filter_map(|module| module.get(within.len()).cloned())
        .collect();
    for name in &names {
        assert!(rank(name).is_some(), "{}: `{name}` is not in the order of layers", source.display());
    }
    assert_eq!(names.len(), order.len(), "a layer without a file: {order:?}");
    let mut wrong = Vec::new();
    for (user, used) in uses(source).remove(&within).unwrap_or_default() {
        let above = used.into_iter().filter(|(used, _)| rank(used) > rank(&user));
        wrong.extend(above.map(|(used, how)| format!("`{user}` uses `{used}`, which comes later: {how}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The order is that of the table in lib.rs.
#[test]
fn modules_of_the_pool_use_only_those_below_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = fs::read_to_string(folder.join("lib.rs")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | ")?.split(" |").next());
    let order: Vec<&str> =
        rows.skip(1).flat_map(|names| names.split(['`', '[', ']', ',', ' '])).filter(|name| !name.is_empty()).collect();
    assert!(order.len() > 20, "{order:?}");
    check_layers(&folder, &[], &order);
}

/// The order is that of the list in predictor/mod.rs.
#[test]
fn modules_of_the_predictor_use_only_those_below_them() {
    check_listed_layers("predictor");
}

/// The order is that of the list in cooperation/mod.rs.
#[test]
fn modules_of_the_cooperation_use_only_those_below_them() {
    check_listed_layers("cooperation");
}

fn check_listed_layers(module: &str) {
    let source = workspace().join("crates/pagecast-core/src");
    let root = fs::read_to_string(source.join(module).join("mod.rs")).unwrap();
    let (_, list) = root.split_once("// From the bottom up: ").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let order: Vec<&str> = list.split(&[',', ' ', '\n', '/'][..]).filter(|name| !name.is_empty()).collect();
    check_layers(&source, &[module], &order);
}

/// The names of the dependencies that a manifest lists, development and build apart.
fn dependencies(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let mut names = BTreeSet::new();
    let mut is_list = false;
    for line in text.lines() {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            is_list = table == "dependencies" || table.ends_with(".dependencies") && table.starts_with("target");
        } else if is_list && let Some((name, _)) = line.split_once('=') {
            names.insert(name.trim().trim_end_matches(".workspace").to_owned());
        }
    }
    names
}

/// Fails where code under `folder` has one of the words.
fn never(folder: &str, forbidden: &[&str]) {
    for file in files_in(&workspace().join(folder), "rs") {
        let code = code(&file);
        let words = words(&code);
        for word in forbidden {
            assert!(!words.contains(word), "{}: {folder} never has `{word}` (ARCHITECTURE.md)", file.display());
        }
    }
}

/// ARCHITECTURE.md, "Parts and who may know whom": each row of the table that a machine can check.
#[test]
fn parts_never_do_what_architecture_says() {
    let of = |part: &str| dependencies(&workspace().join(part).join("Cargo.toml"));
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    // Does I/O, reads a clock, spawns, knows a host; no unsafe.
    never(
        "crates/pagecast-core/src",
        &["unsafe", "Instant", "SystemTime", "File", "TcpStream", "println", "spawn", "process"],
    );
    assert!(
        of("crates/pagecast-core").is_subset(&names(&["shuttle", "foldhash", "hashbrown"])),
        "the core's dependencies"
    );
    // Knows Parquet, SQL or PostgreSQL.
    never("crates/pagecast/src", &["parquet", "arrow", "datafusion", "sqlparser", "pg_pagecast", "libpq"]);
    let pool = of("crates/pagecast");
    assert!(
        pool.contains("pagecast-core")
            && !pool.iter().any(|name| name.starts_with("pagecast-") && name != "pagecast-core")
    );
    // Knows the pool or a host.
    never("crates/pagecast-sim/src", &["pagecast_datafusion", "pagecast_capi"]);
    assert!(!of("crates/pagecast-sim").contains("pagecast"), "then its code cannot know the pool either");
    // Prints, reads flags, knows a terminal, the simulator or another host.
    never("crates/pagecast-sql/src", &["println", "eprintln", "stdout", "stderr", "pagecast_sim"]);
    let sql = of("crates/pagecast-sql");
    for other in ["clap", "console", "indicatif", "rustyline", "pagecast-sim", "pagecast-kv", "pagecast-capi"] {
        assert!(!sql.contains(other), "{other}");
    }
    for file in files_in(&workspace().join("crates/pagecast-sql/src"), "rs") {
        let unsafe_code = words(&code(&file)).contains("unsafe");
        assert!(!unsafe_code || file.ends_with("heap_unsafe.rs"), "{}", file.display());
    }
    // Knows a pool, a host, a statement of ours.
    assert!(!of("crates/pagecast-corrections").iter().any(|name| name.starts_with("pagecast")));
    never("crates/pagecast-corrections/src", &["unsafe", "println"]);
    never("crates/pagecast-fuzz/src", &["unsafe"]);
    never("crates/pagecast-server/src", &["println", "eprintln", "stdout", "stderr", "clap", "unsafe"]);
    // Is depended on.
    for part in [
        "crates/pagecast-core",
        "crates/pagecast",
        "crates/pagecast-sim",
        "crates/pagecast-sql",
        "crates/pagecast-server",
        "hosts/datafusion",
        "hosts/delta",
        "hosts/iceberg",
        "hosts/capi",
        "hosts/kv",
        "hosts/cluster",
        "hosts/distributed",
        "hosts/python",
        "hosts/python/sql",
    ] {
        for programs in ["pagecast-cli", "pagecast-lab", "pagecast-fuzz"] {
            assert!(!of(part).contains(programs), "{part}: {programs}");
        }
    }
    // Knows of the pool what its users do not.
    assert!(!of("hosts/kv").contains("pagecast-core"));
    never("hosts/kv/src", &["unsafe"]);
    // Knows the pool, or a host.
    let delta = of("hosts/delta");
    assert!(!delta.contains("pagecast") && !delta.contains("pagecast-datafusion"));
    // Takes more than metadata from the library, whose Arrow is another.
    let iceberg = of("hosts/iceberg");
    assert!(!iceberg.contains("pagecast") && !iceberg.contains("pagecast-datafusion"));
    never("hosts/iceberg/src", &["ArrowReader", "ArrowReaderBuilder", "FileIO", "PuffinReader"]);
    // Knows an engine of several machines. Affinity knows no DataFusion either.
    let cluster = of("hosts/cluster");
    assert!(!cluster.iter().any(|name| name.contains("distributed")));
    let affinity = code(&workspace().join("hosts/cluster/src/affinity.rs"));
    assert!(!["datafusion", "pagecast"].iter().any(|word| words(&affinity).contains(word)));
    // Knows the pool's inside, or policy or prediction logic.
    for part in ["hosts/cluster", "hosts/distributed"] {
        assert!(!of(part).contains("pagecast-core"), "{part}");
    }
    // Holds replay logic; unsafe outside of `array`.
    never("hosts/python/src", &["belady", "NextUses", "ConcurrentPolicy", "Predictor"]);
    let python = of("hosts/python");
    assert!(python.contains("pagecast-sim") && !python.contains("pagecast"), "the wheel needs no pool");
    for file in files_in(&workspace().join("hosts/python/src"), "rs") {
        let unsafe_code = words(&code(&file)).contains("unsafe");
        assert!(!unsafe_code || file.ends_with("array.rs"), "{}", file.display());
    }
    // Reads files, plans scans; unsafe outside of `capsule_unsafe`.
    let of_sql = of("hosts/python/sql");
    assert!(of_sql.contains("pagecast-sql") && !of_sql.contains("pagecast-core") && !of_sql.contains("parquet"));
    never("hosts/python/sql/src", &["File", "ListingTable", "ParquetSource", "Predictor"]);
    for file in files_in(&workspace().join("hosts/python/sql/src"), "rs") {
        let unsafe_code = words(&code(&file)).contains("unsafe");
        assert!(!unsafe_code || file.ends_with("capsule_unsafe.rs"), "{}", file.display());
    }
    // Holds policy or prediction logic.
    for host in ["hosts/datafusion/src", "hosts/capi/src", "hosts/kv/src", "hosts/postgres/predictor/src"] {
        never(host, &["ConcurrentPolicy", "SequentialPolicy", "Frames", "NextUses"]);
    }
    let predictor = dependencies(&workspace().join("hosts/postgres/predictor/Cargo.toml"));
    assert_eq!(predictor, names(&["pagecast-core"]), "the extension knows the core alone");
}

/// What stands between the bracket that `text` begins with and the one that closes it, and what
/// follows.
fn enclosed(text: &str) -> (&str, &str) {
    let open = text.chars().next().unwrap();
    let close = if open == '{' { '}' } else { ')' };
    let mut depth = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == open) - i32::from(c == close);
        (depth == 0).then_some(at)
    });
    let end = end.unwrap();
    (text[1..end].trim(), text[end + 1..].trim())
}

/// The functions whose definitions have `opening` before the name: name, what is between it and the
/// body, and the body.
fn functions<'a>(code: &'a str, opening: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let begin = code.match_indices(opening).map(|(at, _)| &code[at + opening.len()..]);
    // What has no name is the type of a function.
    let named = begin.filter(|rest| rest.starts_with(char::is_alphabetic));
    named
        .map(|rest| {
            let (name, _) = rest.split_once(['(', '<']).unwrap();
            let (head, _) = rest.split_once('{').unwrap();
            (name, &head[name.len()..], enclosed(&rest[head.len()..]).0)
        })
        .collect()
}

/// Whether some code is one call, alone or in a block that is unsafe, of one of `names`.
fn is_call_of(code: &str, names: &[&str]) -> bool {
    let call = code.strip_prefix("unsafe ").map_or(code, |block| enclosed(block).0);
    names
        .iter()
        .any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with('(') && enclosed(rest).1.is_empty()))
}

/// The blocks of some code that are unsafe.
fn unsafe_blocks(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("unsafe {").map(|(at, found)| enclosed(&code[at + found.len() - 1..]).0)
}

/// What breaks "lets a panic cross into C": entry points that are not one call of `answer`, which
/// catches panics, or of a function that is one. The number of the others, too.
fn unguarded(code: &str) -> (Vec<&str>, usize) {
    let guarded = functions(code, "fn ").into_iter().filter(|(_, _, body)| is_call_of(body, &["answer"]));
    let guards: Vec<&str> = guarded.map(|(name, _, _)| name).chain(["answer"]).collect();
    let entries = functions(code, "extern \"C\" fn ");
    let bare = entries.iter().filter(|(_, _, body)| !is_call_of(body, &guards)).map(|(name, _, _)| *name);
    let bare: Vec<&str> = bare.collect();
    let others = entries.len() - bare.len();
    (bare, others)
}

/// Calls of functions in C, which are none if they are null, and of one that has its pointer from
/// here.
const CALLS_INTO_C: [&str; 6] = ["unpin", "(self.flush)", "(self.items)", "(self.locate)", "(name)", "(log)"];

/// ARCHITECTURE.md on `hosts/capi`: lets a panic cross into C, follows a null pointer.
#[test]
fn panics_and_null_pointers_end_in_the_c_interface() {
    // They hand out what is there, and have no status to return.
    let exempt =
        ["pagecast_default_options", "pagecast_relation_length", "pagecast_relation_pages", "pagecast_message"];
    let folder = workspace().join("hosts/capi/src");
    let files = files_in(&folder, "rs").into_iter().filter(|file| !file.ends_with("pointers.rs"));
    let entries = files.map(|file| code(&file)).collect::<String>();
    let (bare, guarded) = unguarded(&entries);
    assert_eq!(bare, exempt, "entry points outside `answer`");
    assert!(guarded >= 28, "{guarded} entry points were found");

    // To follow a pointer takes an unsafe block. Each is one call of a function that refuses null,
    // or of the log's function, which is none if it is null.
    let pointers = code(&folder.join("pointers.rs"));
    let ways = functions(&pointers, "unsafe fn ");
    for (name, head, _) in &ways {
        assert!(head.contains("-> Result<") || head.contains("-> Option<"), "`{name}` cannot refuse null");
    }
    let known: Vec<&str> = ways.iter().map(|(name, _, _)| *name).chain(CALLS_INTO_C).collect();
    for block in unsafe_blocks(&entries) {
        assert!(is_call_of(block, &known) && !block.contains('*'), "a pointer's way past pointers.rs: {block}");
    }
}

/// What the server's functions begin with that write a page, log a change, or take a page from its
/// buffer.
const WRITE_OR_EVICT: [&str; 29] = [
    "MarkBufferDirty",
    "LockBufferForCleanup",
    "ConditionalLockBufferForCleanup",
    "Flush",
    "WritebackContext",
    "IssuePendingWritebacks",
    "ScheduleBufferTagForWriteback",
    "BgBufferSync",
    "CheckPointBuffers",
    "EvictUnpinned",
    "EvictRel",
    "EvictAll",
    "InvalidateBuffer",
    "InvalidateVictimBuffer",
    "DropRel",
    "DropDatabaseBuffers",
    "BufTableInsert",
    "BufTableDelete",
    "ClearBufferTag",
    "StrategyGetBuffer",
    "ExtendBufferedRel",
    "smgrwrite",
    "smgrextend",
    "smgrzeroextend",
    "smgrtruncate",
    "XLog",
    "log_newpage",
    "FileWrite",
    "BM_JUST_DIRTIED",
];

/// ARCHITECTURE.md on `hosts/postgres`: evicts, writes.
#[test]
fn the_extension_neither_writes_nor_evicts() {
    let files = ["c", "h"].map(|extension| files_in(&workspace().join("hosts/postgres/src"), extension)).concat();
    assert!(files.len() >= 14, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
        for word in words(&code.collect::<String>()) {
            let forbidden = WRITE_OR_EVICT.iter().any(|begins| word.starts_with(begins));
            assert!(!forbidden, "{}: hosts/postgres never has `{word}` (ARCHITECTURE.md)", file.display());
        }
    }
}

#[test]
fn the_check_itself_sees_what_it_should() {
    let code = "extern \"C\" fn a(p: *mut u8) -> S { answer(|| { f(unsafe { *p }); Ok(()) }) }
        extern \"C\" fn b() -> S { f(); answer(|| Ok(())) } fn c<P>() { answer(|| ()) }
        extern \"C\" fn d() { unsafe { c(1) } } extern \"C\" fn e() { answer(|| ()).f() }";
    assert_eq!(unguarded(code), (vec!["b", "e"], 2));
    assert_eq!(unsafe_blocks(code).collect::<Vec<_>>(), ["*p", "c(1)"]);
    assert!(is_call_of("c(1)", &["b", "c"]) && !is_call_of("*p", &["p"]) && !is_call_of("c(p).add(1)", &["c"]));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lib.rs"), "pub use high::High;").unwrap();
    fs::write(folder.path().join("low.rs"), "").unwrap();
    fs::write(folder.path().join("high.rs"), "use crate::low::Low;").unwrap();
    check_layers(folder.path(), &[], &["low", "high"]);
    fs::write(folder.path().join("low.rs"), "use crate::High;").unwrap();
    let upward = std::panic::catch_unwind(|| check_layers(folder.path(), &[], &["low", "high"]));
    let said = upward.unwrap_err();
    let said = said.downcast_ref::<String>().unwrap();
    assert!(said.contains("`low` uses `high`") && said.contains("crate::High"), "{said}");
}
