//! The example in C is compiled against header and library, run, and watched by valgrind where there is one.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What Rust's standard library needs of the system (`rustc --print native-static-libs`).
const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

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

/// Compiles the example with every warning an error, as C and against `libraries`.
fn compile(compiler: &str, program: &Path, libraries: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-I"]).arg(here.join("include"));
    command.arg(here.join("examples/read.c")).arg("-o").arg(program).args(libraries).args(SYSTEM_LIBRARIES);
    said(&command.output().unwrap());
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
    let library = built().join("libpagecast_c.a");
    assert!(library.exists(), "cargo did not build {}", library.display());
    compile(&compiler, &program, &[library.to_str().unwrap()]);

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

    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: no valgrind");
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "--quiet"]);
    said(&valgrind.arg(&program).args([&table, &counter]).output().unwrap());
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
    compile(&compiler, &program, &[&search, &at_run_time, "-Wl,-Bdynamic", "-l:libpagecast_c.so"]);
    assert!(
        said(&Command::new(&program).args([&table, &folder.path().join("counter")]).output().unwrap())
            .contains("sum 5000\n")
    );
}
