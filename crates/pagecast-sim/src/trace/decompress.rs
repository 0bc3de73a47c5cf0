//! Opens a file as the bytes it stands for: gzip, zstd and xz are recognised by their first bytes,
//! not by name.

use std::io::{BufRead, BufReader, Read};

const BUFFER: usize = 1 << 18;

/// The bytes behind `input`, decompressed if they are compressed.
pub(crate) fn decompressed<R: Read + Send + 'static>(input: R) -> std::io::Result<Box<dyn BufRead + Send>> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    // One read may give fewer bytes than a magic number has; a file never does unless it is that
    // short.
    let head = input.fill_buf()?;
    Ok(if head.starts_with(&[0x1f, 0x8b]) {
        buffered(flate2::bufread::MultiGzDecoder::new(input))
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        buffered(zstd::stream::read::Decoder::with_buffer(input)?)
    } else if head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        buffered(liblzma::bufread::XzDecoder::new_multi_decoder(input))
    } else {
        Box::new(input)
    })
}

fn buffered<R: Read + Send + 'static>(input: R) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER, input))
}
