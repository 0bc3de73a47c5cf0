//! S3 servers on loopback.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::{BackoffConfig, RetryConfig};
use pagecast::storage::FaultStore;
use tempfile::TempDir;

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Right about conditions.
    Versitygw,
    /// Ignores conditions, and lists without ETags.
    S3sFs,
}

impl Kind {
    /// The variable that names the program, and its name in PATH.
    fn program(self) -> String {
        let (variable, name) = match self {
            Kind::Versitygw => ("VERSITYGW", "versitygw"),
            Kind::S3sFs => ("S3S_FS", "s3s-fs"),
        };
        std::env::var(variable).unwrap_or_else(|_| name.to_owned())
    }

    fn command(self, port: u16, folder: &Path) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Kind::Versitygw => command
                .args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--keep-alive", "posix"])
                .env("ROOT_ACCESS_KEY", "test")
                .env("ROOT_SECRET_KEY", "not-to-be-shown"),
            Kind::S3sFs => command.args(["--access-key", "test", "--secret-key", "not-to-be-shown"]).args([
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
            ]),
        };
        command.arg(folder).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// A server with one empty bucket, which ends with its test.
pub(crate) struct Server {
    child: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Option<Self> {
        let program = kind.program();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("data/bucket")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = kind.command(port, &folder.path().join("data")).spawn();
        let Ok(child) = started else {
            // Past the capture of output, so that nobody takes it for passed.
            let _ = writeln!(std::io::stderr(), "skipped: no S3 server: {program} cannot be started");
            return None;
        };
        let mut server = Self { child, port, _folder: folder };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "{program} ended at once");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    pub(crate) fn store(&self, secret: &str) -> FaultStore {
        FaultStore::new(client(self.port, secret).build().unwrap())
    }
}

/// A client of what listens at `port`, that tries again without long pauses.
pub(crate) fn client(port: u16, secret: &str) -> AmazonS3Builder {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(20),
        ..BackoffConfig::default()
    };
    AmazonS3Builder::new()
        .with_endpoint(format!("http://127.0.0.1:{port}"))
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name("bucket")
        .with_access_key_id("test")
        .with_secret_access_key(secret)
        .with_retry(RetryConfig { backoff, ..RetryConfig::default() })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
