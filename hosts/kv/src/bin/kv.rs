//! Looks into a store, and puts things into it: `cargo run -p pagecast-kv -- DIR check`.

use std::error::Error;
use std::process::ExitCode;

use pagecast_kv::{Options, Store};

const USAGE: &str = "usage: kv DIR check | stats | get KEY | put KEY VALUE | delete KEY | list [FROM [TO]]";

fn run(words: &[&str]) -> Result<bool, Box<dyn Error>> {
    let [folder, command @ ..] = words else { return Err(USAGE.into()) };
    if !std::path::Path::new(folder).join("data").exists() && !matches!(command, ["put", ..]) {
        return Err(format!("{folder}: there is no store").into());
    }
    let store = Store::open(folder, Options::default())?;
    match *command {
        ["check"] => println!("{folder}: sound; {} entries", store.check()?.entries),
        ["stats"] => println!("{}", store.check()?),
        ["get", key] => match store.get(key.as_bytes())? {
            Some(value) => println!("{}", String::from_utf8_lossy(&value)),
            None => return Ok(false),
        },
        ["put", key, value] => store.put(key.as_bytes(), value.as_bytes())?,
        ["delete", key] => return Ok(store.delete(key.as_bytes())?),
        ["list", ref bounds @ ..] => {
            let (from, to) = (bounds.first().map_or("", |from| from), bounds.get(1));
            let entries = match to {
                Some(to) => store.range(from.as_bytes()..to.as_bytes()),
                None => store.range(from.as_bytes()..),
            };
            for entry in entries {
                let (key, value) = entry?;
                println!("{}\t{}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
            }
        }
        _ => return Err(USAGE.into()),
    }
    store.close()?;
    Ok(true)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        // The key is not there.
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("kv: {error}");
            ExitCode::from(2)
        }
    }
}
