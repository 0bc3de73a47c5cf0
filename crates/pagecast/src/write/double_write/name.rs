//! What a file is called in the area: as it is seen from the area's folder.

use std::path::{Component, Path, PathBuf};

/// The name of a file as it is seen from the folder of the area. Names only: links are followed by
/// whoever opens it.
pub(super) fn name_of(file: &Path, area: &Path) -> PathBuf {
    let folder = folder_of(area);
    let (file, folder) = match (file.is_absolute(), folder.is_absolute()) {
        (true, false) => (file.to_owned(), absolute(&folder)),
        (false, true) => (absolute(file), folder),
        _ => (plain(file), folder),
    };
    let shared = file.components().zip(folder.components()).take_while(|(one, other)| one == other).count();
    let up: Vec<_> = folder.components().skip(shared).collect();
    // Out of what is not known by name there is no way.
    if up.contains(&Component::ParentDir) {
        return absolute(&file);
    }
    up.iter().map(|_| Component::ParentDir).chain(file.components().skip(shared)).collect()
}

/// The file of that name.
pub(super) fn file_of(name: &Path, area: &Path) -> PathBuf {
    plain(&folder_of(area).join(name))
}

fn folder_of(area: &Path) -> PathBuf {
    plain(area.parent().unwrap_or(Path::new("")))
}

fn absolute(path: &Path) -> PathBuf {
    // An empty path is not taken for the folder that a process is in.
    std::path::absolute(Path::new(".").join(path)).map_or_else(|_| path.to_owned(), |path| plain(&path))
}

/// The path without detours.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn named(file: &str, area: &str) -> String {
        let name = name_of(Path::new(file), Path::new(area));
        name.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_file_is_called_as_it_is_seen_from_the_area() {
        for (file, area, name) in [
            ("table", "area", "table"),
            ("store/data", "store/double", "data"),
            ("./store/data", "store/double", "data"),
            ("/a/store/data", "/a/store/double", "data"),
            ("/a/tables/one", "/a/areas/double", "../tables/one"),
            ("tables/one", "double", "tables/one"),
            ("one", "areas/double", "../one"),
            ("/a/x/../one", "/a/double", "one"),
        ] {
            assert_eq!(named(file, area), name, "{file} and {area}");
            let found = file_of(Path::new(name), Path::new(area));
            assert_eq!(found, plain(Path::new(file)), "{name} from {area}");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(named(here.join("one").to_str().unwrap(), "double"), "one");
        assert_eq!(named("one", here.join("double").to_str().unwrap()), "one");
    }
}
