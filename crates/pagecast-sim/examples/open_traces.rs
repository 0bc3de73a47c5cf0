//! Miss ratios of policies on the open traces at the sizes of their reference table:
//! `open_traces FOLDER POLICIES [TRACE...]`, one line for each trace, size and policy. FOLDER holds
//! `REFERENCE.tsv` and `open/`.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use pagecast_core::policy::PolicySpec;
use pagecast_sim::simulation::{Interleaving, simulate};
use pagecast_sim::trace::{Format, Trace, open};

/// The pool sizes of the reference table by trace.
fn sizes(folder: &Path) -> Result<BTreeMap<String, BTreeSet<u32>>, Box<dyn Error>> {
    let mut sizes: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for line in std::fs::read_to_string(folder.join("REFERENCE.tsv"))?.lines().skip(1) {
        let mut fields = line.split('\t').skip(1);
        if let (Some(trace), Some(size)) = (fields.next(), fields.nth(1)) {
            sizes.entry(trace.to_owned()).or_default().insert(size.parse()?);
        }
    }
    Ok(sizes)
}

fn load(folder: &Path, name: &str) -> Result<Trace, Box<dyn Error>> {
    let names = [format!("{name}.txt.gz"), format!("{name}.rw.txt.gz")];
    let path = names.iter().map(|file| folder.join("open").join(file)).find(|path| path.exists());
    let path = path.ok_or_else(|| format!("{}: there is no {name}", folder.display()))?;
    Ok(Trace::load(name, open(&path, &Format::Text)?.as_mut())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, policies, wanted @ ..] = arguments.as_slice() else {
        return Err("open_traces FOLDER POLICIES [TRACE...]".into());
    };
    let (folder, policies) = (Path::new(folder), PolicySpec::parse_list(policies)?);
    for (name, sizes) in sizes(folder)?.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name)) {
        let trace = load(folder, name)?;
        for &size in sizes {
            for policy in &policies {
                let counts = simulate(&trace, policy, size, 1, Interleaving::Fixed)?.counts;
                let ratio = 100.0 * counts.misses as f64 / counts.requests as f64;
                println!("{name}\t{size}\t{}\t{ratio:.3}", policy.name());
            }
        }
    }
    Ok(())
}
