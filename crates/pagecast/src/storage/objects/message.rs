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

/// URLs in `text` lose what says who asks: what stands before the host, and their queries.
fn without_secrets(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, url)) = rest.split_once("://") {
        let end = url.find(|c: char| c.is_whitespace() || "\"'`()<>".contains(c)).unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        shown += before;
        shown += "://";
        shown += authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        shown += path.split('?').next().unwrap_or_default();
        rest = after;
    }
    shown + rest
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
        ] {
            assert_eq!(brief(said), shown);
        }
    }
}
