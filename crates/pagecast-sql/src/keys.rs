//! Names of a table's files and folders: hidden ones, and those that are keys and values.

use std::path::{Path, PathBuf};

use anyhow::bail;
use arrow::datatypes::DataType;
use datafusion::datasource::listing::ListingTableUrl;
use object_store::path::Path as Location;

/// The folder of rows whose key is NULL.
pub(crate) const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// Whether a folder's value is NULL.
pub(crate) fn is_null(value: &str) -> bool {
    value == NULL_FOLDER
}

/// Whether a file at these places belongs to the table: no name below them is hidden.
pub(crate) fn is_shown(urls: &[ListingTableUrl], file: &Location) -> bool {
    urls.iter().any(|url| url.strip_prefix(file).is_some_and(|mut names| !names.any(is_hidden)))
}

/// Whether a file or folder of this name is none of a table: Spark's `_delta_log`, `_temporary` and
/// `_SUCCESS` are not, and the folders of a key `_k` are.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name.starts_with('_') && key(name).is_none()
}

/// How folders write numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbers {
    /// Without zeros before them, so that a number names its folder.
    Plain,
    /// `month=01` is 1 as well.
    AsTheyCome,
}

/// The key and value of a folder `year=2024`.
pub(crate) fn key_of(path: &Path) -> Option<(&str, &str)> {
    key(path.file_name()?.to_str()?).filter(|_| path.is_dir())
}

/// The key and value in the name `year=2024`.
pub(crate) fn key(name: &str) -> Option<(&str, &str)> {
    name.split_once('=').filter(|(key, _)| !key.is_empty())
}

/// The keys of folders, which must be the same for all files, and what their values can be.
#[derive(Default)]
pub(crate) struct Keys {
    /// A file that has them.
    first: Option<String>,
    columns: Vec<(String, Kinds)>,
}

/// What all values of a key but NULL are; a text otherwise.
struct Kinds {
    is_number: bool,
    is_truth: bool,
}

impl Keys {
    /// Adds those of the folders that lead to a file.
    pub(crate) fn add(&mut self, file: &str, keys: Vec<(&str, &str)>) -> anyhow::Result<()> {
        let first = self.first.get_or_insert_with(|| {
            let of_key = |(key, _): &(&str, &str)| ((*key).to_owned(), Kinds { is_number: true, is_truth: true });
            self.columns = keys.iter().map(of_key).collect();
            file.to_owned()
        });
        if !self.columns.iter().map(|(key, _)| key.as_str()).eq(keys.iter().map(|&(key, _)| key)) {
            bail!("{file}: its folders have other keys than those of {first}");
        }
        for ((_, kinds), (_, value)) in self.columns.iter_mut().zip(keys).filter(|(_, (_, value))| !is_null(value)) {
            // DataFusion finds the folder of a number by writing the number, so that 01 must stay a
            // text.
            kinds.is_number &= value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
            kinds.is_truth &= value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false");
        }
        Ok(())
    }

    /// The columns that they are.
    pub(crate) fn columns(self) -> Vec<(String, DataType)> {
        let kind = |kinds: &Kinds| match kinds {
            Kinds { is_number: true, .. } => DataType::Int64,
            Kinds { is_truth: true, .. } => DataType::Boolean,
            _ => DataType::Utf8,
        };
        self.columns.into_iter().map(|(key, kinds)| (key, kind(&kinds))).collect()
    }
}

/// The keys of the folders that lead from `folder` to its `files`.
pub(crate) fn keys(folder: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<(String, DataType)>> {
    let mut keys = Keys::default();
    for file in files {
        if file.file_name().is_some_and(|name| name.as_encoded_bytes().contains(&b'=')) {
            bail!("{}: DataFusion takes `=` in a file's name for a folder's key; rename the file", file.display());
        }
        // A file that is a table by itself has none.
        let folders = file.ancestors().take_while(|&path| path != folder).skip(1);
        let names: Vec<_> = folders.filter_map(|folder| folder.file_name()?.to_str()).collect();
        let mut of_file: Vec<_> = names.iter().filter_map(|name| key(name)).collect();
        of_file.reverse();
        // DataFusion looks for keys from the table's folder on, and leaves out what has none there.
        if names.iter().rev().take(of_file.len()).any(|name| key(name).is_none()) {
            bail!("{}: it would be left out, for there is a folder without a key above its keys", file.display());
        }
        keys.add(&file.display().to_string(), of_file)?;
    }
    Ok(keys.columns())
}
