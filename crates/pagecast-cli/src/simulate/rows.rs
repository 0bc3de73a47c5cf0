//! What a study gives, as JSON and as CSV.

use std::fmt::Write;

use pagecast_sim::study::{Curve, Flash, Results, Row, Study, Tuples, time_text};
use serde_json::{Value, json};

/// The whole result; `errors` says what is missing in it.
pub(super) fn json(study: &Study, results: &Results, errors: &[String]) -> Value {
    let config = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "seed": study.seed,
        "time": time_text(study.interleaving),
        "page_size": study.page_size,
    });
    let mut json = json!({"schema": 1, "config": config, "rows": results.rows.iter().map(row).collect::<Vec<_>>()});
    if results.partial {
        json["partial"] = json!(true);
    }
    if !results.curves.is_empty() {
        json["curves"] = results.curves.iter().map(curve).collect();
    }
    if !errors.is_empty() {
        json["errors"] = json!(errors);
    }
    json
}

fn row(row: &Row) -> Value {
    let mut json = json!({
        "trace": row.trace, "policy": row.policy, "params": row.params, "size_pages": row.size_pages,
        "requests": row.requests, "misses": row.misses, "writes": row.writes, "write_backs": row.write_backs,
        "seconds": row.seconds,
    });
    let of_time = [("ticks", row.ticks), ("opt_misses", row.opt_misses)];
    for (name, number) in of_time.into_iter().filter_map(|(name, number)| Some((name, number?))) {
        json[name] = json!(number);
    }
    if let Some(of) = &row.tuples {
        json["tuples"] = json!(of.tuples);
        json["memory"] = json!(of.memory);
        json["frames"] = json!(of.frames);
        json["share"] = json!(of.share);
        json["tuple_hits"] = json!(of.tuple_hits);
        json["cleaning_reads"] = json!(of.cleaning_reads);
        json["device_requests"] = json!(of.device_requests);
        json["device_bytes"] = json!(of.device_bytes);
    }
    if let Some(of) = &row.flash {
        json["flash"] = json!(of.flash);
        json["flash_pages"] = json!(of.flash_pages);
        json["flash_hits"] = json!(of.flash_hits);
        json["flash_written"] = json!(of.flash_written);
        json["store_reads"] = json!(of.store_reads);
        json["store_bytes"] = json!(of.store_bytes);
        json["flash_written_bytes"] = json!(of.flash_written_bytes);
    }
    json
}

fn curve(curve: &Curve) -> Value {
    let mut json = json!({"trace": curve.trace, "policy": curve.policy, "rate": curve.rate, "points": curve.points});
    if let Some(error) = curve.mean_error {
        json["mean_error"] = json!(error);
    }
    json
}

/// A head line, then a line a row; texts in quotes.
pub(super) fn csv(rows: &[Row]) -> String {
    let of_tuples = rows.iter().any(|row| row.tuples.is_some());
    let more = ",tuples,memory,frames,share,tuple_hits,cleaning_reads,device_requests,device_bytes";
    let mut text = "trace,policy,params,size_pages,requests,misses,writes,write_backs,seconds".to_owned();
    text += if of_tuples { more } else { "" };
    if rows.iter().any(|row| row.flash.is_some()) {
        text += ",flash,flash_pages,flash_hits,flash_written,store_reads,store_bytes,flash_written_bytes";
    }
    text.push('\n');
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    for row in rows {
        let [trace, policy, params] = [&row.trace, &row.policy, &row.params].map(|text| quoted(text));
        let Row { size_pages, requests, misses, writes, write_backs, seconds, .. } = row;
        write!(text, "{trace},{policy},{params},{size_pages},{requests},{misses},{writes},{write_backs},{seconds}")
            .expect("a String takes any text");
        if let Some(Tuples {
            tuples,
            memory,
            frames,
            share,
            tuple_hits,
            cleaning_reads,
            device_requests,
            device_bytes,
        }) = &row.tuples
        {
            let tuples = quoted(tuples);
            write!(
                text,
                ",{tuples},{memory},{frames},{share},{tuple_hits},{cleaning_reads},{device_requests},{device_bytes}"
            )
            .expect("a String takes any text");
        }
        if let Some(Flash {
            flash,
            flash_pages,
            flash_hits,
            flash_written,
            store_reads,
            store_bytes,
            flash_written_bytes,
        }) = &row.flash
        {
            let flash = quoted(flash);
            write!(
                text,
                ",{flash},{flash_pages},{flash_hits},{flash_written},{store_reads},{store_bytes},{flash_written_bytes}"
            )
            .expect("a String takes any text");
        }
        text.push('\n');
    }
    text
}
