//! Any bytes as what a client of PostgreSQL sends to `pagecast serve`: its first messages, and
//! those behind them. That of Flight SQL is HTTP/2 and gRPC, which tonic reads; whole sessions of
//! both are spoilt in `crates/pagecast-cli/tests/serve/hostile.rs`.
//!
//! The first byte says whether the others are all that comes, or only what stands in messages whose
//! lengths are right: the fuzzer seldom finds these by itself.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use pgwire::messages::ProtocolVersion;
use pgwire::messages::startup::{GssEncRequest, SslRequest};

#[path = "../../crates/pagecast-server/src/frames.rs"]
mod frames;

use frames::{HEADER_BYTES, MOST_STARTUP_BYTES, Purpose};

/// Up to the client's own first message: what it speaks, if it is let go on.
fn first(bytes: &mut BytesMut) -> Option<ProtocolVersion> {
    while bytes.len() >= 4 {
        let length = frames::startup_bytes(bytes).filter(|&length| length <= bytes.len())?;
        let frame = bytes.split_to(length);
        if SslRequest::is_ssl_request_packet(&frame) || GssEncRequest::is_gss_enc_request_packet(&frame) {
            continue;
        }
        return match frames::purpose(frame) {
            Ok(Purpose::Session(hello)) => {
                let said: usize = hello.parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
                let more: usize = hello.unsupported.iter().flatten().map(String::len).sum();
                // What is no UTF-8 becomes a character of three bytes.
                assert!(said + more <= 3 * length, "more is read than was sent");
                Some(hello.version)
            }
            Ok(Purpose::Cancel { pid, key }) => {
                assert!(size_of_val(&pid) + key.len() < length, "more is read than was sent");
                None
            }
            Err((_major, _minor)) => None,
        };
    }
    None
}

/// A message as it is sent.
fn framed(kind: Option<u8>, body: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::from_iter(kind);
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fuzz_target!(
    // The decoder panics at wrong lengths. Who calls it catches that, and only what is not caught
    // ends the fuzzer.
    init: std::panic::set_hook(Box::new(|_| {})),
    |data: &[u8]| {
        let Some((how, data)) = data.split_first() else { return };
        let mut bytes = BytesMut::from(data);
        let version = match how % 4 {
            0 => ProtocolVersion::PROTOCOL3_0,
            1 => ProtocolVersion::PROTOCOL3_2,
            2 => {
                first(&mut framed(None, data));
                return;
            }
            _ => match first(&mut bytes) {
                Some(version) => version,
                None => return,
            },
        };
        if how % 4 < 2 {
            bytes.clear();
            // A type, how many bytes belong to it, and these.
            let mut rest = data;
            while let [kind, length, more @ ..] = rest {
                let (body, behind) = more.split_at(more.len().min(usize::from(*length)));
                bytes.unsplit(framed(Some(*kind), body));
                rest = behind;
            }
        }
        let context = frames::context(version);
        while bytes.len() >= HEADER_BYTES {
            let Ok(length) = frames::message_bytes(&bytes, MOST_STARTUP_BYTES, "before login") else { return };
            if length > bytes.len() {
                return;
            }
            let mut frame = bytes.split_to(length);
            assert!(frames::words(&frame) <= length / 2, "more words than fit");
            if frames::decoded(&mut frame, &context).is_none() {
                return;
            }
        }
    }
);
