//! TLS by rustls: a certificate chain and its key.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pgwire::tokio::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::startup::ALPN;

/// What clients speak over TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spoken {
    /// PostgreSQL's protocol.
    PostgreSql,
    /// Flight SQL.
    Flight,
}

impl Spoken {
    /// How clients may name it.
    fn name(self) -> &'static [u8] {
        match self {
            Self::PostgreSql => ALPN,
            Self::Flight => b"h2",
        }
    }
}

/// Accepts TLS with this certificate chain and its key, both PEM.
///
/// # Errors
///
/// A file cannot be read, or is none; says so by the flags `--tls-cert` and `--tls-key`.
pub fn acceptor(cert: &Path, key: &Path, spoken: Spoken) -> anyhow::Result<TlsAcceptor> {
    let read = || -> anyhow::Result<Vec<CertificateDer<'static>>> {
        let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<Vec<_>, _>>()?;
        (!chain.is_empty()).then_some(chain).ok_or_else(|| anyhow!("there is no certificate in it"))
    };
    let chain = read().with_context(|| format!("--tls-cert: cannot use {}", cert.display()))?;
    let key_at = || format!("--tls-key: cannot use {}", key.display());
    let private = PrivateKeyDer::from_pem_file(key).with_context(key_at)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().context("--tls-cert")?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, private).with_context(key_at)?;
    config.alpn_protocols = vec![spoken.name().to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
