//! Messages of PostgreSQL's clients, out of any bytes. This file stands on nothing else of the
//! server: a fuzzer has it without DataFusion (`fuzz/fuzz_targets/frames.rs`).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Buf, BytesMut};
use pgwire::messages::startup::SecretKey;
use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};

/// What a client may send before it is known: PostgreSQL's own limit.
pub(super) const MOST_STARTUP_BYTES: usize = 10_000;
/// Type and length.
pub(super) const HEADER_BYTES: usize = 5;
/// The types of messages that a client has.
const TYPES: &[u8] = b"BCDEFHPQSXcdfp";

/// What a connection is for.
pub(super) enum Purpose {
    Session(Hello),
    /// To end what another connection runs.
    Cancel {
        pid: i32,
        key: Vec<u8>,
    },
}

/// What a client says of itself.
pub(super) struct Hello {
    pub(super) version: ProtocolVersion,
    pub(super) parameters: BTreeMap<String, String>,
    /// What it asked for that we do not have.
    pub(super) unsupported: Option<Vec<String>>,
}

/// How long the first message is, by its first four bytes; `None` if no client sends such a one.
pub(super) fn startup_bytes(mut first: &[u8]) -> Option<usize> {
    let bytes = first.get_u32() as usize;
    (8..=MOST_STARTUP_BYTES).contains(&bytes).then_some(bytes)
}

/// What the first message asks for that is no wish for encryption, or the version that it names.
pub(super) fn purpose(mut frame: BytesMut) -> Result<Purpose, (u16, u16)> {
    let (major, minor) = ((&frame[4..6]).get_u16(), (&frame[6..8]).get_u16());
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_2);
    context.awaiting_frontend_ssl = false;
    match decoded(&mut frame, &context) {
        Some(PgWireFrontendMessage::CancelRequest(cancel)) => {
            Ok(Purpose::Cancel { pid: cancel.pid, key: key_bytes(&cancel.secret_key) })
        }
        Some(PgWireFrontendMessage::Startup(startup)) if major == 3 => {
            let mut parameters = startup.parameters;
            let options: Vec<_> = parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
            parameters.retain(|name, _| !name.starts_with("_pq_."));
            let version = if minor >= 2 { ProtocolVersion::PROTOCOL3_2 } else { ProtocolVersion::PROTOCOL3_0 };
            let unsupported = (!options.is_empty() || !matches!(minor, 0 | 2)).then_some(options);
            Ok(Purpose::Session(Hello { version, parameters, unsupported }))
        }
        _ => Err((major, minor)),
    }
}

fn key_bytes(key: &SecretKey) -> Vec<u8> {
    match key {
        SecretKey::I32(key) => key.to_be_bytes().to_vec(),
        SecretKey::Bytes(bytes) => bytes.to_vec(),
    }
}

/// Words of the text of statements that a message has, about, without those in its constants.
pub(super) fn words(frame: &[u8]) -> usize {
    if !matches!(frame, [b'Q' | b'P', ..]) {
        return 0;
    }
    let (mut is_constant, mut is_between) = (false, false);
    let begins = |&&byte: &&u8| {
        is_constant ^= byte == b'\'';
        let before = std::mem::replace(&mut is_between, b"\0 \t\n,;()".contains(&byte));
        before && !is_between && !is_constant
    };
    frame.iter().filter(begins).count()
}

/// How long a message is, its type included, by its first bytes. One of more than `most` is refused
/// in the name of `limit`.
pub(super) fn message_bytes(header: &[u8], most: usize, limit: &str) -> Result<usize, String> {
    if !TYPES.contains(&header[0]) {
        return Err(format!("no message begins with byte {:#04x}", header[0]));
    }
    let bytes = (&header[1..HEADER_BYTES]).get_i32();
    match usize::try_from(bytes) {
        Ok(bytes) if bytes >= 4 && bytes <= most => Ok(bytes + 1),
        _ => Err(format!("a message of {bytes} bytes is refused; at most {most} are taken ({limit})")),
    }
}

/// How messages behind the first one are read.
pub(super) fn context(version: ProtocolVersion) -> DecodeContext {
    let mut context = DecodeContext::new(version);
    (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, false);
    context
}

/// The message that a frame is; `None` for one whose contents do not fit.
pub(super) fn decoded(frame: &mut BytesMut, context: &DecodeContext) -> Option<PgWireFrontendMessage> {
    // The decoder trusts lengths inside of a message, which may be anything. It sees the bytes of
    // this message only, and what it does with wrong ones ends here.
    let decoded = catch_unwind(AssertUnwindSafe(|| PgWireFrontendMessage::decode(frame, context)));
    decoded.ok()?.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_constants_do_not_count() {
        assert_eq!(words(b"Q\0\0\0\x20SELECT a, 'one two', (b) IN (1,2, 3);\0"), 7);
        assert_eq!(words(b"B\0\0\0\x20a, b, c, d"), 0);
    }
}
