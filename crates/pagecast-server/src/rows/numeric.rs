//! The binary format of numeric: digits of base 10000, and where the point is.

use anyhow::anyhow;
use bytes::{BufMut, BytesMut};

const NEGATIVE: u16 = 0x4000;

/// Writes a decimal from its text, such as `-12.340`, of which `scale` digits follow the point.
pub(super) fn write(text: &str, scale: i8, out: &mut BytesMut) -> anyhow::Result<()> {
    let (sign, digits) = text.strip_prefix('-').map_or((0, text), |rest| (NEGATIVE, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = Vec::new();
    // Groups of four digits count from the point in both directions.
    let head = whole.len() % 4;
    push(&whole[..head], &mut groups)?;
    for at in (head..whole.len()).step_by(4) {
        push(&whole[at..at + 4], &mut groups)?;
    }
    let mut weight = groups.len() as i16 - 1;
    for at in (0..fraction.len()).step_by(4) {
        let group = &fraction[at..fraction.len().min(at + 4)];
        push(&format!("{group:0<4}"), &mut groups)?;
    }
    let leading = groups.iter().take_while(|&&group| group == 0).count();
    groups.drain(..leading);
    weight -= leading as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_i16(groups.len() as i16);
    out.put_i16(weight);
    out.put_u16(if groups.is_empty() { 0 } else { sign });
    out.put_i16(i16::from(scale.max(0)));
    for group in groups {
        out.put_i16(group);
    }
    Ok(())
}

fn push(digits: &str, groups: &mut Vec<i16>) -> anyhow::Result<()> {
    if !digits.is_empty() {
        groups.push(digits.parse().map_err(|_| anyhow!("`{digits}` are no digits of a number"))?);
    }
    Ok(())
}

/// The text of a number in the binary format.
pub(crate) fn read(bytes: &[u8]) -> Option<String> {
    let word = |at: usize| Some(i16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (word(0)?, word(2)?, word(4)? as u16, word(6)?);
    if count < 0 || scale < 0 || bytes.len() != 8 + 2 * count as usize || (sign != 0 && sign != NEGATIVE) {
        return None;
    }
    // More digits than a decimal has are refused where the text is read; this bounds the text.
    if weight.unsigned_abs() > 64 || scale > 256 {
        return None;
    }
    let group = |place: i16| match usize::try_from(place) {
        Ok(place) if place < count as usize => word(8 + 2 * place),
        _ => Some(0),
    };
    let mut text = String::from(if sign == NEGATIVE { "-" } else { "" });
    text.push('0');
    for place in 0..=weight {
        text += &format!("{:04}", group(place)?);
    }
    let mut fraction = String::new();
    let mut place = weight + 1;
    while fraction.len() < scale as usize {
        fraction += &format!("{:04}", group(place)?);
        place += 1;
    }
    fraction.truncate(scale as usize);
    if !fraction.is_empty() {
        text.push('.');
        text += &fraction;
    }
    Some(text)
}
