/// The Castagnoli polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Remainder of each byte value.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// The CRC-32C checksum of `bytes` (RFC 3720, section 12.1), which TensorBoard's record files carry.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// A checksum as record files store it, rotated and shifted so that a checksum of checksummed data stays meaningful.
pub(super) fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
