//! TLS by rustls: a certificate chain and its key.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pgwire::tokio::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Accepts TLS with this certificate chain, for clients that may name the protocol `alpn`.
pub(super) fn acceptor(cert: &Path, key: &Path, alpn: &[u8]) -> anyhow::Result<TlsAcceptor> {
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
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
