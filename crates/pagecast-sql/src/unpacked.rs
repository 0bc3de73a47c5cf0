//! Files that are packed as wholes (`day.csv.gz`), as they are unpacked. DataFusion reads them by
//! itself in builds with more libraries than this one has otherwise.
//!
//! Such a store is made of another one, and its URL says so: `unpacked+s3://bucket`. What is not
//! packed comes through as it is. There is no reading of ranges: whoever lists such files does not
//! let them be cut.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use flate2::write::MultiGzDecoder;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::{Position, Url};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

const SCHEME: &str = "unpacked+";
const CHUNK: usize = 256 << 10;

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// What the last ending of a name says.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The URL of the same place in the store that unpacks.
pub(crate) fn unpacked(url: &str) -> String {
    format!("{SCHEME}{url}")
}

/// The same without that, for people.
pub(crate) fn packed(url: &str) -> &str {
    url.strip_prefix(SCHEME).unwrap_or(url)
}

/// Whether a place is in a store that unpacks.
pub(crate) fn is_unpacked(url: &ListingTableUrl) -> bool {
    url.scheme().starts_with(SCHEME)
}

/// Makes the stores of these places known that unpack.
pub(crate) fn register(state: &SessionState, urls: &[ListingTableUrl]) -> datafusion::common::Result<()> {
    for url in urls.iter().filter(|url| is_unpacked(url)) {
        let of = |text: &str| Url::parse(text).map_err(|error| Error::Generic { store: "url", source: error.into() });
        let inner = of(packed(url.as_str()))?;
        let inner = state.runtime_env().object_store_registry.get_store(&of(&inner[..Position::BeforePath])?)?;
        let root = of(url.object_store().as_str())?;
        state.runtime_env().register_object_store(&root, Arc::new(Unpacked { inner }));
    }
    Ok(())
}

/// A store over `inner`.
#[derive(Debug)]
struct Unpacked {
    inner: Arc<dyn ObjectStore>,
}

impl fmt::Display for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Unpacked {
    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        let packing = Packing::of(Path::new(location.as_ref())).filter(|_| !options.head);
        let Some(packing) = packing else { return self.inner.get_opts(location, options).await };
        if options.range.is_some() {
            return Err(failed(location, "a part of a packed file".into()));
        }
        let found = self.inner.get_opts(location, options).await?;
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let data = unpack(found.into_stream(), Unpacker::new(packing).map_err(|e| failed(location, e.into()))?);
        let location = location.clone();
        let data = data.map_err(move |error| match error {
            Fault::Store(error) => error,
            Fault::Packed(error) => failed(&location, error.into()),
        });
        Ok(GetResult { payload: GetResultPayload::Stream(data.boxed()), meta, range, attributes })
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Location>, offset: &Location) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, location: &Location, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(failed(location, "packed files are read, and not written".into()))
    }

    async fn put_multipart_opts(&self, at: &Location, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(failed(at, "packed files are read, and not written".into()))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Location>>) -> BoxStream<'static, Result<Location>> {
        self.inner.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn failed(location: &Location, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Generic { store: "packed file", source: format!("{location}: {source}").into() }
}

enum Fault {
    Store(Error),
    Packed(std::io::Error),
}

/// What unpacks one file.
pub(crate) enum Unpacker {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// And whether it stands between two frames.
    Zstd(Decoder<'static>, bool),
}

impl Unpacker {
    pub(crate) fn new(packing: Packing) -> std::io::Result<Self> {
        Ok(match packing {
            Packing::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Packing::Zstd => Self::Zstd(Decoder::new()?, true),
        })
    }

    pub(crate) fn unpack(&mut self, data: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => {
                decoder.write_all(data)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zstd(decoder, is_between) => {
                let (mut unpacked, mut data) = (Vec::new(), InBuffer::around(data));
                let mut part = vec![0; CHUNK];
                loop {
                    let mut out = OutBuffer::around(&mut part);
                    *is_between = decoder.run(&mut data, &mut out)? == 0;
                    unpacked.extend_from_slice(out.as_slice());
                    if data.pos() == data.src.len() && (*is_between || out.as_slice().len() < CHUNK) {
                        return Ok(unpacked);
                    }
                }
            }
        }
    }

    /// What is left when the file ends.
    fn end(&mut self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zstd(_, true) => Ok(Vec::new()),
            Self::Zstd(_, false) => Err(std::io::Error::other("it is truncated")),
        }
    }
}

fn unpack(
    data: BoxStream<'static, Result<Bytes>>,
    unpacker: Unpacker,
) -> BoxStream<'static, std::result::Result<Bytes, Fault>> {
    let next = async |state: Option<(BoxStream<'static, Result<Bytes>>, Unpacker)>| {
        let Some((mut data, mut unpacker)) = state else { return Ok(None) };
        loop {
            let Some(chunk) = data.next().await else {
                return Ok(Some((unpacker.end().map_err(Fault::Packed)?.into(), None)));
            };
            let unpacked = unpacker.unpack(&chunk.map_err(Fault::Store)?).map_err(Fault::Packed)?;
            if !unpacked.is_empty() {
                return Ok(Some((Bytes::from(unpacked), Some((data, unpacker)))));
            }
        }
    };
    stream::try_unfold(Some((data, unpacker)), next).boxed()
}
