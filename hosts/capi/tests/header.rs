//! The header is what cbindgen makes of the sources. `PAGECAST_WRITE_HEADER=1 cargo test -p
//! pagecast-capi --test header` (`make capi-header`) writes it anew.
#![allow(clippy::unwrap_used)]

use std::path::Path;

#[test]
fn the_header_is_what_the_sources_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_src(here.join("src/status.rs"))
        .with_src(here.join("src/pool.rs"))
        .with_src(here.join("src/relation.rs"))
        .with_src(here.join("src/scan.rs"))
        .with_src(here.join("src/unordered.rs"))
        .with_src(here.join("src/page.rs"))
        .with_src(here.join("src/session.rs"))
        .with_src(here.join("src/write.rs"))
        .with_config(cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap())
        .generate()
        .unwrap()
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let header = here.join("include/pagecast.h");
    if std::env::var_os("PAGECAST_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(kept == made, "include/pagecast.h is not what the sources say: run `make capi-header`");
}
