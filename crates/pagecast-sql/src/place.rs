//! Where data are, as somebody said it: a path or a URL. Whoever asks for them by a password is
//! taken off here, so that no error, plan or report can show it.

use std::ffi::OsString;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

/// A text that nobody is shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For its store alone.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A path or a URL, as it may be shown. A user and a password of HTTP are kept apart for the store.
#[derive(Clone, Debug)]
pub struct Place {
    shown: PathBuf,
    /// If it is one, without secrets; or why it is none.
    url: Option<Result<Url, &'static str>>,
    login: Option<Login>,
}

/// Who asks a server of files.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// What HTTP calls the credentials of Basic.
    pub(crate) basic: Secret,
    /// What must not be seen where a server repeats it: the password, as it is and as it stood in
    /// the URL; or the user, if that is all there is.
    pub(crate) parts: Vec<Secret>,
}

impl Login {
    fn of(url: &Url) -> Option<Self> {
        let (user, password) = (url.username(), url.password());
        if user.is_empty() && password.is_none() {
            return None;
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let secret = password.unwrap_or(user);
        let both = format!("{}:{}", decoded(user), decoded(password.unwrap_or_default()));
        let basic = Secret::new(BASE64_STANDARD.encode(both));
        Some(Self { parts: vec![Secret::new(secret), Secret::new(decoded(secret)), basic.clone()], basic })
    }
}

const SIGNED: &str =
    "what follows the ? would not be sent: presigned URLs are not read, credentials come from variables";
const PASSWORD: &str = "no password may stand in this URL; credentials of its store come from variables";

impl Place {
    fn of_url(text: &str) -> Self {
        let scheme = text.split("://").next().unwrap_or_default();
        let none = |why| Self { shown: format!("{scheme}://...").into(), url: Some(Err(why)), login: None };
        let Ok(mut url) = Url::parse(text) else { return none("it is no URL") };
        let is_http = matches!(url.scheme(), "http" | "https");
        // Of Azure the part before the @ is the container.
        let is_azure = matches!(url.scheme(), "az" | "azure" | "adl" | "abfs" | "abfss");
        let login = Login::of(&url).filter(|_| is_http);
        let is_other = matches!(url.scheme(), "s3" | "s3a" | "gs" | "file");
        let has_password =
            (is_other && !url.username().is_empty()) || ((is_other || is_azure) && url.password().is_some());
        // Of a URL that no store has, that is what is said.
        let wrong = match () {
            () if url.query().is_some() && (is_http || is_azure || is_other) => Some(SIGNED),
            () if has_password => Some(PASSWORD),
            () => None,
        };
        let is_clean = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        // Neither fails where there was one to take off.
        let _ = url.set_password(None);
        if !is_azure {
            let _ = url.set_username("");
        }
        url.set_query(None);
        url.set_fragment(None);
        let shown = if is_clean || is_azure && wrong.is_none() {
            text.split('#').next().unwrap_or_default()
        } else {
            url.as_str()
        };
        Self { shown: shown.into(), url: Some(wrong.map_or(Ok(url), Err)), login }
    }

    /// The URL, if it is one, without secrets; or what is wrong with it.
    pub(crate) fn url(&self) -> Option<Result<&Url, &'static str>> {
        self.url.as_ref().map(|url| url.as_ref().map_err(|why| *why))
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Whether it names a password, which a statement may not: others see statements.
    pub(crate) fn has_login(&self) -> bool {
        self.login.is_some()
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        let text = path.to_string_lossy();
        if text.contains("://") { Self::of_url(&text) } else { Self { shown: path, url: None, login: None } }
    }
}

impl From<OsString> for Place {
    fn from(text: OsString) -> Self {
        PathBuf::from(text).into()
    }
}

impl From<&str> for Place {
    fn from(text: &str) -> Self {
        PathBuf::from(text).into()
    }
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.shown
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_shows_no_secret() {
        for (said, shown, is_read) in [
            ("http://me:hunter2@host:80/a", "http://host/a", true),
            ("https://hunter2@host/a", "https://host/a", true),
            ("https://host/a?sig=hunter2", "https://host/a", false),
            ("https://host/a#hunter2", "https://host/a", true),
            ("http://me:hun/ter2@host/a", "http://...", false),
            ("http://me:hunter2", "http://...", false),
            ("s3://key:hunter2@bucket/a", "s3://bucket/a", false),
            ("s3://hunter2@bucket/a", "s3://bucket/a", false),
            ("abfss://container:hunter2@host/a", "abfss://container@host/a", false),
            ("abfss://container@host/a", "abfss://container@host/a", true),
            ("s3://bucket/a b", "s3://bucket/a b", true),
            ("ftp://me:hunter2@host/a?sig=hunter2", "ftp://host/a", true),
        ] {
            let place = Place::from(said);
            assert_eq!((place.to_str(), place.url().unwrap().is_ok()), (Some(shown), is_read), "{said}");
            assert!(!format!("{place:?}").contains("ter2"), "{place:?}");
        }
        assert!(Place::from("a/b@c").url().is_none());
    }

    #[test]
    fn a_login_is_decoded() {
        let login = Place::from("http://me:hunter%402@host/").login().unwrap().clone();
        assert_eq!(login.basic.reveal(), "bWU6aHVudGVyQDI=");
        assert_eq!(login.parts.iter().map(Secret::reveal).collect::<Vec<_>>()[..2], ["hunter%402", "hunter@2"]);
    }
}
