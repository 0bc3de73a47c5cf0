//! Where files of a table may lie. Metadata names whole paths, so whoever writes it could have any
//! file of the machine read; only those in places that the user named are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as StorePath;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

use crate::error::{IcebergError, Result};

/// A file or folder, as a text names it. Two texts that mean the same are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    /// `file://` or `s3://bucket`.
    store: String,
    /// Behind that, with a slash before it and none after it. Nothing in it is escaped.
    path: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = self.store.strip_prefix("file://").unwrap_or(&self.store);
        write!(f, "{store}{}", self.path)
    }
}

impl Location {
    /// None if no store could have it, or it goes up.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) && rest.starts_with('/') => (scheme.to_ascii_lowercase(), rest),
            _ => ("file".to_owned(), text),
        };
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let is_local = scheme == "file";
        if is_local != host.is_empty() && !(is_local && host == "localhost") || (is_local && !path.starts_with('/')) {
            return None;
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        if path.contains('\0') || parts.clone().any(|part| part == "..") {
            return None;
        }
        // Hadoop has more names for one store.
        let store = match scheme.as_str() {
            "file" => "file://".to_owned(),
            "s3a" | "s3n" => format!("s3://{host}"),
            scheme => format!("{scheme}://{host}"),
        };
        let path = parts.by_ref().fold(String::new(), |path, part| path + "/" + part);
        Some(Self { store, path })
    }

    /// A path of this machine, with its links followed if it is there.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let path = path.canonicalize().or_else(|_| std::path::absolute(path)).ok()?;
        Self::of(path.to_str()?)
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        Self { store: self.store.clone(), path: format!("{}/{name}", self.path) }
    }

    pub(crate) fn parent(&self) -> Self {
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Self { store: self.store.clone(), path: path.to_owned() }
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn local(&self) -> Option<PathBuf> {
        (self.store == "file://").then(|| PathBuf::from(if self.path.is_empty() { "/" } else { &self.path }))
    }

    /// Whether both are of one store.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.store == other.store
    }

    fn is_in(&self, folder: &Self) -> bool {
        let rest = self.path.strip_prefix(&folder.path);
        self.is_beside(folder) && rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// As its store names it.
    fn in_store(&self) -> Result<StorePath> {
        let path = match self.local() {
            Some(path) => StorePath::from_absolute_path(path),
            None => StorePath::parse(&self.path),
        };
        path.map_err(|error| IcebergError::broken(self.to_string(), error))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// The folders of one store in which files of a table may lie.
#[derive(Clone)]
pub(crate) struct Place {
    url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
    /// Without links, if they are of this machine.
    allowed: Vec<Location>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("allowed", &self.allowed).finish()
    }
}

impl Place {
    /// Those of these folders that lie in the store of the first one, which the session must know.
    pub(crate) fn new(allowed: &[Location], stores: Option<&dyn ObjectStoreRegistry>) -> Result<Self> {
        let refused = |what: String| IcebergError::Refused {
            at: allowed.first().map(Location::to_string).unwrap_or_default(),
            what,
        };
        let Some(first) = allowed.first() else { return Err(refused("no place is allowed".to_owned())) };
        let known = allowed.iter().filter(|folder| folder.is_beside(first)).map(|folder| match folder.local() {
            Some(path) => Location::of_path(&path).unwrap_or_else(|| folder.clone()),
            None => folder.clone(),
        });
        let unknown = |why: &str| refused(format!("no store of the session has {}{why}", first.store));
        let (url, store): (_, Arc<dyn ObjectStore>) = if first.local().is_some() {
            (ObjectStoreUrl::local_filesystem(), Arc::new(LocalFileSystem::new()))
        } else {
            let url = Url::parse(&first.store).map_err(|_| unknown(""))?;
            let store = stores.ok_or_else(|| unknown(""))?.get_store(&url);
            let store = store.map_err(|error| unknown(&format!(": {}", error.strip_backtrace())))?;
            (ObjectStoreUrl::parse(&first.store)?, store)
        };
        Ok(Self { url, store, allowed: known.collect() })
    }

    pub(crate) fn url(&self) -> &ObjectStoreUrl {
        &self.url
    }

    /// The file that a text of the metadata names, as the store names it.
    pub(crate) fn file(&self, text: &str) -> Result<StorePath> {
        self.allowed(text)?.in_store()
    }

    /// The same on this machine, if it is.
    pub(crate) fn local(&self, text: &str) -> Result<Option<PathBuf>> {
        Ok(self.allowed(text)?.local())
    }

    fn allowed(&self, text: &str) -> Result<Location> {
        let refused = |why: String| {
            let at = self.allowed.first().map(Location::to_string).unwrap_or_default();
            Err(IcebergError::Refused { at, what: format!("its file {text} {why}, and is not read") })
        };
        let Some(location) = Location::of(text) else { return refused("is none of a store".to_owned()) };
        // What is not there is missed by who reads it.
        let real = location.local().and_then(|path| path.canonicalize().ok());
        let real = real.map_or(Some(location), |real| Location::of(real.to_str()?));
        match real {
            Some(real) if self.allowed.iter().any(|folder| real.is_in(folder)) => Ok(real),
            _ => refused("lies outside of the table's folder and of places that option 'allow' names".to_owned()),
        }
    }

    /// What is in a file.
    pub(crate) async fn read(&self, text: &str) -> Result<Bytes> {
        let path = self.file(text)?;
        let read = async { self.store.get(&path).await?.bytes().await };
        read.await.map_err(IcebergError::io(text))
    }

    /// So many bytes of a file, or what there is of them.
    pub(crate) async fn read_range(&self, text: &str, start: u64, bytes: u64) -> Result<Bytes> {
        let path = self.file(text)?;
        let end = start.checked_add(bytes).ok_or_else(|| IcebergError::broken(text, "its parts have no end"))?;
        let options = GetOptions { range: Some(GetRange::Bounded(start..end)), ..GetOptions::default() };
        let read = async { self.store.get_opts(&path, options).await?.bytes().await };
        read.await.map_err(IcebergError::io(text))
    }

    /// The files in a folder, by their names.
    pub(crate) async fn list(&self, folder: &Location) -> Result<Vec<ObjectMeta>> {
        let path = folder.in_store()?;
        let listed: Vec<ObjectMeta> =
            self.store.list(Some(&path)).try_collect().await.map_err(IcebergError::io(folder.to_string()))?;
        let depth = path.parts().count() + 1;
        Ok(listed.into_iter().filter(|file| file.location.parts().count() == depth).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_that_mean_the_same_are_equal() {
        for (said, shown) in [
            ("/lake/t/a b%20.parquet", "/lake/t/a b%20.parquet"),
            ("file:/lake/t/k=a:b/x", "/lake/t/k=a:b/x"),
            ("file:///lake/t/x", "/lake/t/x"),
            ("FILE://localhost//lake/./t/x/", "/lake/t/x"),
            ("s3a://bucket/t/x", "s3://bucket/t/x"),
            ("gs://bucket", "gs://bucket"),
        ] {
            assert_eq!(Location::of(said).unwrap().to_string(), shown, "{said}");
        }
        for said in ["x", "../x", "/a/../x", "file:x", "file://host/x", "s3:/b/x", "s3:///x", "s3://b/../x", "/a\0", ""]
        {
            assert_eq!(Location::of(said), None, "{said}");
        }
    }

    #[test]
    fn files_lie_in_allowed_places() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("t");
        std::fs::create_dir(&root).unwrap();
        for file in ["secret", "t/own", "tt"] {
            std::fs::write(folder.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("own", root.join("in")).unwrap();
        std::os::unix::fs::symlink("t", folder.path().join("link")).unwrap();
        let linked = Location::of(folder.path().join("link").to_str().unwrap()).unwrap();
        let place = Place::new(&[linked], None).unwrap();
        let own = place.file(root.join("own").to_str().unwrap()).unwrap();
        for said in ["t/own", "t/in", "link/own"] {
            assert_eq!(place.file(folder.path().join(said).to_str().unwrap()).unwrap(), own, "{said}");
        }
        assert!(place.file(root.join("absent").to_str().unwrap()).is_ok());
        for said in ["t/out", "secret", "tt", "t", "t/../secret"] {
            let error = place.file(folder.path().join(said).to_str().unwrap()).unwrap_err().to_string();
            assert!(error.contains("its file") && error.ends_with("is not read"), "{said}: {error}");
        }
        for said in ["s3://bucket/x", "http://host/x", "own"] {
            assert!(place.file(said).is_err(), "{said}");
        }
    }
}
