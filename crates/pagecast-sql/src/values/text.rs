//! The text format.

use std::fmt::{Display, Write};

use anyhow::bail;
use arrow::array::{Array, ArrayRef};
use bytes::{BufMut, BytesMut};

/// What its own text is.
pub(super) fn shown(value: impl Display, out: &mut BytesMut) {
    // Nothing that grows its memory refuses text.
    let _ = write!(out, "{value}");
}

/// Text, in which PostgreSQL allows no zero byte.
pub(super) fn plain(value: &str, out: &mut BytesMut) -> anyhow::Result<()> {
    if value.contains('\0') {
        bail!("a text with a zero byte has no text format in PostgreSQL's protocol");
    }
    out.put_slice(value.as_bytes());
    Ok(())
}

pub(super) fn bytes(value: &[u8], out: &mut BytesMut) {
    out.put_slice(b"\\x");
    for byte in value {
        shown(format_args!("{byte:02x}"), out);
    }
}

pub(super) fn float4(value: f32, out: &mut BytesMut) {
    float(format!("{value:e}"), value.is_finite(), 6, out);
}

pub(super) fn float8(value: f64, out: &mut BytesMut) {
    float(format!("{value:e}"), value.is_finite(), 15, out);
}

/// The shortest digits that are the number, as PostgreSQL lays them out: with an exponent from
/// 10^`large` on, and below 10^-4. `text` is the number as `-1.25e-7`.
fn float(text: String, finite: bool, large: i32, out: &mut BytesMut) {
    if !finite {
        return shown(text.replace("inf", "Infinity"), out);
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    if exponent < -4 || exponent >= large {
        let direction = if exponent < 0 { '-' } else { '+' };
        return shown(format_args!("{sign}{mantissa}e{direction}{:02}", exponent.abs()), out);
    }
    let digits: String = mantissa.chars().filter(|&c| c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return shown(format_args!("{sign}0.{zeros}{digits}"), out);
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((whole, "")) => shown(format_args!("{sign}{whole}"), out),
        Some((whole, rest)) => shown(format_args!("{sign}{whole}.{rest}"), out),
        None => shown(format_args!("{sign}{digits}{}", "0".repeat(whole - digits.len())), out),
    }
}

/// `{1,NULL,"two words"}`.
pub(super) fn list(values: &ArrayRef, out: &mut BytesMut) -> anyhow::Result<()> {
    out.put_u8(b'{');
    for row in 0..values.len() {
        if row > 0 {
            out.put_u8(b',');
        }
        if values.is_null(row) {
            out.put_slice(b"NULL");
            continue;
        }
        let mut value = BytesMut::new();
        super::text(values, row, &mut value)?;
        element(&value, out);
    }
    out.put_u8(b'}');
    Ok(())
}

/// An element of an array, in quotes where it could be read as something else.
fn element(value: &[u8], out: &mut BytesMut) {
    let special = |byte: &u8| b"{},\"\\".contains(byte) || byte.is_ascii_whitespace();
    if !value.is_empty() && !value.iter().any(special) && !value.eq_ignore_ascii_case(b"null") {
        return out.put_slice(value);
    }
    out.put_u8(b'"');
    for &byte in value {
        if byte == b'"' || byte == b'\\' {
            out.put_u8(b'\\');
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}
