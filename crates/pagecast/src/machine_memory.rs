//! How much memory this process can have: the machine's, or less where a control group limits it.

use std::fs::read_to_string;
use std::path::Path;

/// Bytes of memory that this process can have: the machine's, or less where a control group limits
/// it. `None` where the system does not say (anywhere but on Linux).
///
/// ```
/// let half = pagecast::memory_of_machine().map_or(1 << 30, |bytes| bytes / 2);
/// let pool = pagecast::Pool::new(pagecast::PoolOptions::default().memory(half))?;
/// # Ok::<(), pagecast::PoolError>(())
/// ```
pub fn memory_of_machine() -> Option<u64> {
    limit_under(Path::new("/"))
}

/// [`memory_of_machine`] of the system whose `proc` and `sys` are in `root`.
fn limit_under(root: &Path) -> Option<u64> {
    let meminfo = read_to_string(root.join("proc/meminfo")).ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = total.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)?;
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| group_limit(root, line));
    Some(limits.fold(machine, u64::min))
}

/// The smallest limit of a control group and those that it is in. `line` is `0::/path` in version 2
/// of control groups, `4:memory:/path` in version 1. In a container the path may be the host's, and
/// what counts is at the root.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        names if names.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return None,
    };
    let path = Path::new(path.trim_start_matches('/'));
    let groups = path.ancestors().map(|group| root.join(mount).join(group).join(file));
    // A group without a limit says `max`.
    groups.filter_map(|file| read_to_string(file).ok()?.trim().parse::<u64>().ok()).min()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A root with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\n");

    fn limit_of(files: &[(&str, &str)]) -> Option<u64> {
        limit_under(root(&[&[MEMINFO], files].concat()).path())
    }

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(limit_of(&[]), Some(16 << 20));
        let version_2 = ("proc/self/cgroup", "0::/outer/inner\n");
        let inner = ("sys/fs/cgroup/outer/inner/memory.max", "max\n");
        assert_eq!(limit_of(&[version_2, inner]), Some(16 << 20));
        assert_eq!(limit_of(&[version_2, inner, ("sys/fs/cgroup/outer/memory.max", "1048576\n")]), Some(1 << 20));
        assert_eq!(limit_of(&[version_2, ("sys/fs/cgroup/memory.max", "4096\n")]), Some(4096), "inside a container");
        let version_1 = ("proc/self/cgroup", "9:cpu,cpuacct:/\n4:memory:/docker/1a2b\n0::/\n");
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit_of(&[version_1, unlimited]), Some(16 << 20));
        let limited = ("sys/fs/cgroup/memory/docker/1a2b/memory.limit_in_bytes", "2097152\n");
        assert_eq!(limit_of(&[version_1, unlimited, limited]), Some(2 << 20));
    }

    #[test]
    fn a_system_that_says_nothing_limits_nothing() {
        assert_eq!(limit_under(root(&[]).path()), None);
        assert_eq!(limit_under(root(&[("proc/meminfo", "MemTotal: many kB")]).path()), None);
        assert_eq!(limit_of(&[("proc/self/cgroup", "nonsense\n1:memory\n::\n")]), Some(16 << 20));
    }
}
