//! Programs in C are compiled against header and library, run, and watched by valgrind where there
//! is one: the example, and `calls.c`, which makes the calls that the example leaves out.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What Rust's standard library needs of the system (`rustc --print native-static-libs`).
const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

const EXAMPLE: &str = "examples/read.c";

/// The folder that this test and, as its dependency, the library were built into.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn compiler() -> Option<String> {
    let candidates = std::env::var("CC").into_iter().chain(["cc".to_owned(), "gcc".to_owned(), "clang".to_owned()]);
    candidates.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", lossy(&output.stdout), lossy(&output.stderr));
    lossy(&output.stdout)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compiles a source with every warning an error, as C and against `libraries`.
fn compile(compiler: &str, source: &str, program: &Path, libraries: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-I"]).arg(here.join("include"));
    command.arg(here.join(source)).arg("-o").arg(program).args(libraries).args(SYSTEM_LIBRARIES);
    said(&command.output().unwrap());
}

fn static_library() -> PathBuf {
    let library = built().join("libpagecast_c.a");
    assert!(library.exists(), "cargo did not build {}", library.display());
    library
}

/// Runs a program under valgrind, which fails it for a leak or a byte that was not its own.
fn watch(program: &Command) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: no valgrind");
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "--quiet"]);
    said(&valgrind.arg(program.get_program()).args(program.get_args()).output().unwrap());
}

#[test]
fn the_example_compiles_and_runs_without_a_leak() {
    let Some(compiler) = compiler() else {
        println!("skipped: no C compiler");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (program, table) = (folder.path().join("read"), folder.path().join("table"));
    let bytes: Vec<u8> = (0..300_001u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(&table, &bytes).unwrap();
    compile(&compiler, EXAMPLE, &program, &[static_library().to_str().unwrap()]);

    let counter = folder.path().join("counter");
    let words = said(&Command::new(&program).args([&table, &counter]).output().unwrap());
    let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    assert!(words.contains(&format!("sum {sum}\n")), "{words}");
    // 74 pages once each, one again for its last bytes, one to be held, and the counter's.
    assert!(words.contains("requests 77 hits 2 loads 75 written 1 pinned 0\n"), "{words}");
    assert!(words.contains("run 1\nlog flushed 1 times\n"), "{words}");
    let again = said(&Command::new(&program).args([&table, &counter]).output().unwrap());
    assert!(again.contains("run 2\n"), "the change is in the file: {again}");
    assert!(words.contains("refused: `page->pin` is null\n"), "{words}");

    watch(Command::new(&program).args([&table, &counter]));
}

#[test]
fn the_other_calls_do_what_the_header_says_without_a_leak() {
    let Some(compiler) = compiler() else {
        println!("skipped: no C compiler");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (program, table) = (folder.path().join("calls"), folder.path().join("table"));
    // 64 pages, the last of which has 100 bytes; each byte is its page's number.
    let bytes: Vec<u8> = (0..63 * 4096 + 100).map(|i| (i / 4096) as u8).collect();
    std::fs::write(&table, &bytes).unwrap();
    compile(&compiler, "tests/calls.c", &program, &[static_library().to_str().unwrap()]);
    assert_eq!(said(&Command::new(&program).arg(&table).output().unwrap()), "done\n");
    watch(Command::new(&program).arg(&table));
}

#[test]
fn a_store_is_put_into_and_read_without_a_leak() {
    let Some(compiler) = compiler() else {
        println!("skipped: no C compiler");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("store");
    compile(&compiler, "tests/store.c", &program, &[static_library().to_str().unwrap()]);
    assert_eq!(said(&Command::new(&program).arg(folder.path().join("once")).output().unwrap()), "done\n");
    watch(Command::new(&program).arg(folder.path().join("again")));
}

#[test]
fn the_shared_library_has_the_same_calls() {
    let Some(compiler) = compiler() else {
        println!("skipped: no C compiler");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (program, table) = (folder.path().join("read"), folder.path().join("table"));
    std::fs::write(&table, [1; 5000]).unwrap();
    let built = built();
    let search = format!("-L{}", built.display());
    let at_run_time = format!("-Wl,-rpath,{}", built.display());
    compile(&compiler, EXAMPLE, &program, &[&search, &at_run_time, "-Wl,-Bdynamic", "-l:libpagecast_c.so"]);
    assert!(
        said(&Command::new(&program).args([&table, &folder.path().join("counter")]).output().unwrap())
            .contains("sum 5000\n")
    );
}
