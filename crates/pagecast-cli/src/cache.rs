//! Where the command keeps its own files.

use std::path::PathBuf;

use anyhow::Context;

/// Where generated data and the shell's history are kept: `$XDG_CACHE_HOME/pagecast`, else
/// `~/.cache/pagecast`.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = from("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(from("HOME")?.join(".cache")));
    Ok(cache.context("set XDG_CACHE_HOME or HOME: there is no folder for generated data")?.join("pagecast"))
}
