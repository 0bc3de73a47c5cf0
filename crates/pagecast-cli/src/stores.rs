//! What verbs are told of object stores, and what requests to them cost.

use std::fmt;
use std::str::FromStr;

use pagecast::storage::StoreStats;
use pagecast_sql::Place;
use pagecast_sql::stores::Source;

use crate::failure::of_opening;

const GIGABYTE: f64 = 1e9;

/// What verbs are told of stores.
#[derive(clap::Args, Debug)]
pub(crate) struct StoreArgs {
    /// Where the store of --data is, if its provider has it elsewhere: http://127.0.0.1:7070
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// What the store of --data takes in $: for 1000 GETs or HEADs, for 1000 LISTs, and for a GB
    /// that leaves it
    #[arg(long, value_name = "PRICES", default_value = "get=0.0004,list=0.005,egress=0")]
    pub(crate) price: Prices,
}

impl StoreArgs {
    /// The place that `--data` names, if it is a URL.
    pub(crate) fn source(&self, data: &Place) -> anyhow::Result<Option<Source>> {
        Source::of(data, self.endpoint.as_deref()).map_err(of_opening)
    }
}

/// Prices in $, as stores list them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Prices {
    /// Of 1000 GETs or HEADs.
    get: f64,
    /// Of 1000 LISTs.
    list: f64,
    /// Of a GB that leaves the store.
    egress: f64,
}

impl Prices {
    /// $ for what was asked. Attempts that a store refuses are not charged.
    pub(crate) fn of(&self, asked: &StoreStats) -> f64 {
        let requests = &asked.requests;
        (requests.gets + requests.heads) as f64 / 1000.0 * self.get
            + requests.lists as f64 / 1000.0 * self.list
            + asked.bytes_read as f64 / GIGABYTE * self.egress
    }
}

impl FromStr for Prices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` are no prices; write get=0.0004,list=0.005,egress=0.09, each in $");
        let mut prices = Self { get: 0.0, list: 0.0, egress: 0.0 };
        for part in text.split(',') {
            let (name, price) = part.split_once('=').ok_or_else(fault)?;
            let price: f64 = price.trim().trim_start_matches('$').parse().map_err(|_| fault())?;
            if !price.is_finite() || price < 0.0 {
                return Err(fault());
            }
            match name.trim() {
                "get" => prices.get = price,
                "list" => prices.list = price,
                "egress" => prices.egress = price,
                _ => return Err(fault()),
            }
        }
        Ok(prices)
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "get={},list={},egress={}", self.get, self.list, self.egress)
    }
}

/// An amount in $ with two digits that say something.
pub(crate) fn dollars(amount: f64) -> String {
    let decimals = if amount > 0.0 { (1.0 - amount.log10().floor()).clamp(2.0, 9.0) } else { 2.0 };
    format!("${amount:.*}", decimals as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn prices_are_those_of_requests_and_of_bytes() {
        let prices: Prices = "get=0.0004, list=$0.005,egress=0.09".parse().unwrap();
        assert_eq!(prices.to_string(), "get=0.0004,list=0.005,egress=0.09");
        let mut asked = StoreStats::default();
        asked.requests.gets = 1500;
        asked.requests.heads = 500;
        asked.requests.lists = 2000;
        asked.bytes_read = 2_000_000_000;
        assert!((prices.of(&asked) - (0.0008 + 0.01 + 0.18)).abs() < 1e-12);
        assert_eq!("egress=1".parse::<Prices>().unwrap().of(&asked), 2.0);
        for wrong in ["", "get", "put=1", "get=-1", "get=NaN", "get=free"] {
            assert!(wrong.parse::<Prices>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn small_amounts_are_not_nothing() {
        assert_eq!(dollars(0.0), "$0.00");
        assert_eq!(dollars(0.0000004), "$0.00000040");
        assert_eq!(dollars(0.0123), "$0.012");
        assert_eq!(dollars(12.345), "$12.35");
    }
}
