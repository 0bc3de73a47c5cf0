//! What stands in a request's header about who asks.

use tonic::metadata::MetadataMap;

pub(super) const AUTHORIZATION: &str = "authorization";

/// A name and a password, in base64.
pub(super) fn basic(headers: &MetadataMap) -> Option<&str> {
    behind(headers, "Basic ")
}

/// A token.
pub(super) fn bearer(headers: &MetadataMap) -> Option<&str> {
    behind(headers, "Bearer ")
}

/// What stands behind the word for its kind.
fn behind<'m>(headers: &'m MetadataMap, kind: &str) -> Option<&'m str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let word = text.get(..kind.len())?;
    word.eq_ignore_ascii_case(kind).then(|| text[kind.len()..].trim())
}
