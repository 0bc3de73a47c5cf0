//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first, the eighth says
//! that more follow.

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A difference modulo 2^64, small in either direction: zigzag.
pub(super) fn put_difference(out: &mut Vec<u8>, value: u64, before: u64) {
    let difference = value.wrapping_sub(before) as i64;
    put(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Reads from the front of `input`; `None` if it ends early or a number has more than 64 bits.
pub(super) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads what [`put_difference`] wrote.
pub(super) fn take_difference(input: &mut &[u8], before: u64) -> Option<u64> {
    let zigzag = take(input)?;
    Some(before.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
}
