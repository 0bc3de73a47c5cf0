//! `pagecast-tpch TABLE SCALE` writes a TPC-H table as CSV to standard output, without a header
//! line.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, RegionGenerator,
    SupplierGenerator,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [table, scale] = arguments.as_slice() else { return refuse("expected TABLE SCALE") };
    let Some(scale) = scale.parse().ok().filter(|&scale: &f64| scale > 0.0 && scale.is_finite()) else {
        return refuse(&format!("`{scale}` is no scale factor above 0"));
    };
    match write(table, scale) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => refuse(&format!("`{table}` is no TPC-H table")),
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(what: &str) -> ExitCode {
    eprintln!("pagecast-tpch: {what}");
    ExitCode::FAILURE
}

/// Writes the table; false when there is none of that name.
fn write(table: &str, scale: f64) -> io::Result<bool> {
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    match table {
        "region" => lines(&mut out, RegionGenerator::new(scale, 1, 1).iter().map(RegionCsv::new)),
        "nation" => lines(&mut out, NationGenerator::new(scale, 1, 1).iter().map(NationCsv::new)),
        "part" => lines(&mut out, PartGenerator::new(scale, 1, 1).iter().map(PartCsv::new)),
        "supplier" => lines(&mut out, SupplierGenerator::new(scale, 1, 1).iter().map(SupplierCsv::new)),
        "partsupp" => lines(&mut out, PartSuppGenerator::new(scale, 1, 1).iter().map(PartSuppCsv::new)),
        "customer" => lines(&mut out, CustomerGenerator::new(scale, 1, 1).iter().map(CustomerCsv::new)),
        "orders" => lines(&mut out, OrderGenerator::new(scale, 1, 1).iter().map(OrderCsv::new)),
        "lineitem" => lines(&mut out, LineItemGenerator::new(scale, 1, 1).iter().map(LineItemCsv::new)),
        _ => return Ok(false),
    }?;
    out.flush()?;
    Ok(true)
}

fn lines<R: std::fmt::Display>(out: &mut impl Write, mut rows: impl Iterator<Item = R>) -> io::Result<()> {
    rows.try_for_each(|row| writeln!(out, "{row}"))
}
