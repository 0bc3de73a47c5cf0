//! The header is what cbindgen makes of the sources. `PAGECAST_WRITE_HEADER=1 cargo test -p
//! pagecast-capi --test header` (`make capi-header`) writes it anew.
#![allow(clippy::unwrap_used)]

use std::path::Path;

/// Compares, or writes, the header that a configuration makes of some sources.
fn check(configuration: &str, header: &str, sources: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let builder = cbindgen::Builder::new();
    let builder = sources.iter().fold(builder, |builder, source| builder.with_src(here.join("src").join(source)));
    let mut made = Vec::new();
    builder
        .with_config(cbindgen::Config::from_file(here.join(configuration)).unwrap())
        .generate()
        .unwrap()
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here.join("include").join(header);
    if std::env::var_os("PAGECAST_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "include/{header} is not what the sources say: run `make capi-header`");
}

#[test]
fn the_header_is_what_the_sources_say() {
    let sources = [
        "status.rs",
        "pool.rs",
        "relation.rs",
        "scan.rs",
        "unordered.rs",
        "page.rs",
        "session.rs",
        "layout.rs",
        "tuples.rs",
        "write.rs",
    ];
    check("cbindgen.toml", "pagecast.h", &sources);
}

#[test]
fn the_store_s_header_is_what_its_source_says() {
    check("cbindgen_kv.toml", "pagecast_kv.h", &["kv.rs"]);
}
