//! What the client of a store is told: the usual variables, and a profile of the user's AWS files
//! where the variables name no key.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use object_store::ObjectStoreScheme;
use url::Url;

/// What clients of stores are told by the environment.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
/// The keys of a profile, and the variables that they stand for.
const OF_PROFILE: [(&str, &str); 5] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
    ("region", "AWS_REGION"),
    ("endpoint_url", "AWS_ENDPOINT_URL"),
];

/// Any of these is a credential of S3, or says that none is needed.
const OF_S3: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
];
/// Where a machine in the cloud asks for a credential of S3.
const METADATA: &str = "http://169.254.169.254";

/// Names and values of settings.
pub(crate) type Settings = BTreeMap<String, String>;

/// Those of the environment, and for S3 what a profile adds.
pub(crate) fn settings(is_s3: bool) -> Settings {
    let known = |name: &str| VARIABLES.iter().any(|known| name.starts_with(known));
    // A variable that is no text is none of these.
    let pairs =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut settings: Settings = pairs.filter(|(name, value)| known(name) && !value.is_empty()).collect();
    if is_s3 {
        let read = |variable: &str, name: &str| {
            let path = settings.get(variable).map(PathBuf::from);
            let path = path.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".aws").join(name)))?;
            std::fs::read_to_string(path).ok()
        };
        let files = [read("AWS_SHARED_CREDENTIALS_FILE", "credentials"), read("AWS_CONFIG_FILE", "config")];
        files.into_iter().flatten().for_each(|file| add_profile(&mut settings, &file));
    }
    settings
}

/// Lets the client find its store at `endpoint`.
pub(super) fn set_endpoint(settings: &mut Settings, scheme: &ObjectStoreScheme, endpoint: &str) {
    settings.retain(|name, _| !name.starts_with("AWS_ENDPOINT"));
    let name = if *scheme == ObjectStoreScheme::GoogleCloudStorage { "google_base_url" } else { "endpoint" };
    settings.insert(name.to_owned(), endpoint.to_owned());
}

/// What is missing where no setting has a credential of S3, and nobody hands one out to this
/// machine. The client itself would look for minutes.
pub(super) fn missing_of_s3(settings: &Settings) -> Option<String> {
    if OF_S3.iter().any(|name| settings.contains_key(*name)) {
        return None;
    }
    let service = settings.get("AWS_METADATA_ENDPOINT").map_or(METADATA, String::as_str);
    let answers = || {
        let places = Url::parse(service).ok()?.socket_addrs(|| None).ok()?;
        places.iter().find_map(|place| TcpStream::connect_timeout(place, Duration::from_secs(1)).ok())
    };
    if answers().is_some() {
        return None;
    }
    let profile = settings.get("AWS_PROFILE").map_or("default", String::as_str);
    Some(format!(
        "no credential: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (`{profile}` has no key in \
         ~/.aws), or AWS_SKIP_SIGNATURE=true for a public bucket"
    ))
}

/// Adds what the profile of a file says and the settings do not. Keys come whole from where the
/// access key comes from.
fn add_profile(settings: &mut Settings, file: &str) {
    let wanted = settings.get("AWS_PROFILE").map_or("default", String::as_str);
    let is_wanted = |section: &str| section.strip_prefix("profile ").unwrap_or(section).trim() == wanted;
    let mut said = Settings::new();
    let mut inside = false;
    for line in file.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = is_wanted(section.trim());
        } else if inside
            && let Some((key, value)) = line.split_once('=')
            && let Some((_, variable)) = OF_PROFILE.iter().find(|(known, _)| *known == key.trim())
        {
            said.insert((*variable).to_owned(), value.trim().to_owned());
        }
    }
    let has_keys = settings.contains_key("AWS_ACCESS_KEY_ID");
    let has_region = settings.contains_key("AWS_DEFAULT_REGION");
    for (variable, value) in said {
        let is_key = variable.contains("KEY") || variable.contains("TOKEN");
        let is_taken = is_key && has_keys || variable == "AWS_REGION" && has_region;
        if !is_taken {
            settings.entry(variable).or_insert(value);
        }
    }
}

/// Which setting an answer of S3 speaks of, by the code of its error.
pub(crate) fn at_fault(error: &str) -> &'static str {
    const CODES: [(&str, &str); 7] = [
        ("NoSuchBucket", "there is no such bucket"),
        ("InvalidAccessKeyId", "no account has the key in AWS_ACCESS_KEY_ID"),
        // The same of a gateway.
        ("UserNotFound", "no account has the key in AWS_ACCESS_KEY_ID"),
        ("SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID"),
        ("ExpiredToken", "AWS_SESSION_TOKEN is too old"),
        ("AccessDenied", "the key in AWS_ACCESS_KEY_ID may not do this"),
        ("PermanentRedirect", "AWS_REGION is not the bucket's"),
    ];
    let known = CODES.iter().find(|(code, _)| error.contains(code));
    known.map_or("are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION right?", |(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
[default]
aws_access_key_id = one
aws_secret_access_key=first
# a note
[profile work]
aws_access_key_id = two
aws_secret_access_key = second = padded
region = eu-west-1
sso_session = nothing of ours
";

    fn with(before: &[(&str, &str)]) -> Settings {
        let mut settings = before.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        add_profile(&mut settings, FILE);
        settings
    }

    #[test]
    fn a_profile_fills_what_the_variables_leave_open() {
        let settings = with(&[]);
        assert_eq!((settings["AWS_ACCESS_KEY_ID"].as_str(), settings.len()), ("one", 2));
        let settings = with(&[("AWS_PROFILE", "work")]);
        assert_eq!(settings["AWS_ACCESS_KEY_ID"], "two");
        assert_eq!(settings["AWS_SECRET_ACCESS_KEY"], "second = padded");
        assert_eq!(settings["AWS_REGION"], "eu-west-1");
        let settings = with(&[("AWS_PROFILE", "work"), ("AWS_REGION", "us-east-2")]);
        assert_eq!(settings["AWS_REGION"], "us-east-2");
        assert_eq!(with(&[("AWS_PROFILE", "nobody's")]).len(), 1);
    }

    #[test]
    fn keys_of_two_places_are_not_mixed() {
        let settings = with(&[("AWS_ACCESS_KEY_ID", "mine"), ("AWS_PROFILE", "work")]);
        assert_eq!(settings["AWS_ACCESS_KEY_ID"], "mine");
        assert!(!settings.contains_key("AWS_SECRET_ACCESS_KEY"));
        assert_eq!(settings["AWS_REGION"], "eu-west-1");
    }
}
