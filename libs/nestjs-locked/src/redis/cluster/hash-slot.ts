/**
 * The slot of a key among the 16,384 of a Redis Cluster: CRC16 of the key, or of its hash tag if it has one (Redis
 * Cluster specification, "Key distribution model"). The CRC is that of XMODEM: polynomial 0x1021, initial value 0.
 */

const SLOT_MASK = 16_383;
const POLYNOMIAL = 0x1021;

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1;
  return crc;
});

export function hashSlot(redisKey: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTag(redisKey))) {
    crc = ((crc << 8) ^ (TABLE[(crc >> 8) ^ byte] as number)) & 0xffff;
  }
  return crc & SLOT_MASK;
}

/** The text between the first brace and the next closing one, unless empty. */
function hashTag(redisKey: string): string {
  const from = redisKey.indexOf('{') + 1;
  const to = from === 0 ? -1 : redisKey.indexOf('}', from);
  return to > from ? redisKey.slice(from, to) : redisKey;
}
