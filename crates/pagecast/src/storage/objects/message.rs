//! What a store's error says, fit to be shown.
//!
//! Clients repeat the request: its URL may have a password in it, or a signature among its queries.
//! Servers answer with documents of many lines, which repeat it again.

use object_store::Error;

/// What a store says, in one line and without the request that it repeats, which may be signed.
pub fn store_message(error: &Error) -> String {
    brief(&error.to_string())
}

fn brief(error: &str) -> String {
    let of = |tag: &str| error.split_once(&format!("<{tag}>"))?.1.split('<').next();
    let head = error.split(['<', '\n']).next().unwrap_or_default().trim_end_matches([' ', ':']);
    let says: Vec<&str> = [of("Code"), of("Message")].into_iter().flatten().collect();
    let text = if says.is_empty() { head.to_owned() } else { format!("{head}: {}", says.join(": ")) };
    without_secrets(&text)
}

/// The text as it may be shown: URLs lose what says who asks, which stands before the host, and
/// their queries. Signatures and tokens of a query that stands alone become `***`.
pub fn without_secrets(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, url)) = rest.split_once("://") {
        let end = url.find(|c: char| c.is_whitespace() || "\"'`()<>".contains(c)).unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        shown += before;
        shown += "://";
        shown += without_user(url).split('?').next().unwrap_or_default();
        rest = after;
    }
    without_signatures(&(shown + rest))
}

/// What follows `://`, without the user.
fn without_user(url: &str) -> &str {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    // A password with a slash in it looks like a host with a port that is none.
    let is_cut = !authority.contains(['@', ']']) && port.bytes().any(|byte| !byte.is_ascii_digit());
    let user = if is_cut { url.rfind('@') } else { authority.rfind('@') };
    user.map_or(url, |at| &url[at + 1..])
}

/// Queries of signed URLs have these.
const SIGNATURES: [&str; 8] = [
    "x-amz-signature=",
    "x-amz-credential=",
    "x-amz-security-token=",
    "x-goog-signature=",
    "x-goog-credential=",
    "signature=",
    "sig=",
    "token=",
];

/// The values of [`SIGNATURES`] in a text, also where no URL is around them.
fn without_signatures(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    let starts = |at: usize| SIGNATURES.iter().find(|name| lower[at..].starts_with(**name));
    while let Some(next) = lower[at..].find('=').map(|found| at + found + 1) {
        let name = lower[..next].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_' && c != '=');
        let name = name.map_or(0, |before| before + lower[before..].chars().next().map_or(1, char::len_utf8));
        shown += &text[at..next];
        at = next;
        if starts(name).is_some_and(|found| name + found.len() == next) || lower[name..next].ends_with("_token=") {
            let value = text[next..].find(|c: char| c.is_whitespace() || "&\"'`()<>,;".contains(c));
            at = value.map_or(text.len(), |end| next + end);
            shown += if at > next { "***" } else { "" };
        }
    }
    shown + &text[at..]
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_the_request() {
        let document =
            "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>No.</Message><Key>secret</Key>";
        let error = brief(&format!("GET http://host/a: 403 Forbidden: {document}"));
        assert_eq!(error, "GET http://host/a: 403 Forbidden: AccessDenied: No.");
        assert_eq!(brief("503 Service Unavailable: SlowDown"), "503 Service Unavailable: SlowDown");
    }

    #[test]
    fn a_url_has_no_user_and_no_query() {
        for (said, shown) in [
            ("GET https://me:secret@host:1/a in 2ms", "GET https://host:1/a in 2ms"),
            ("(https://host/a?sv=1&sig=secret) and more?", "(https://host/a) and more?"),
            ("for url (http://secret@host?x=secret): no", "for url (http://host): no"),
            ("http://a/b@c, s3://bucket/key", "http://a/b@c, s3://bucket/key"),
            ("ends with ://", "ends with ://"),
            ("http://me:sec/ret@host/a", "http://host/a"),
            ("http://[::1]:80/a@b and http://[::1]/a@b", "http://[::1]:80/a@b and http://[::1]/a@b"),
            ("go to /a?x=1&X-Amz-Signature=secret&y=2", "go to /a?x=1&X-Amz-Signature=***&y=2"),
            ("//host/a?sig=secret: no; design=ours", "//host/a?sig=*** no; design=ours"),
            ("access_token=secret", "access_token=***"),
        ] {
            assert_eq!(brief(said), shown);
        }
    }
}
