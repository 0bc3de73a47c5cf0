/*
 * Tables that are read whole again and again: how often, and when the last time. Between two such scans nobody has registered the table's
 * pages, and few stay long enough to be seen used twice; that is how the dimensions of a warehouse are lost to what is read between.
 *
 * Source: ours. The paper (Khalaji et al. 2025) knows of running scans only. It is a guess as good as the queries are regular: the time between
 * two scans is the mean of the last two times, weighted to the latest by half, and a table that is not read any more is given up as time goes by.
 *
 * Only sequential scans that go through the pool count, those of tables of less than a quarter of it. What goes through the scan's
 * own ring of buffers does not stay, whatever is thought of it.
 *
 * Two tables whose names fall on the same place take turns there, and the place is worth nothing. The two words of a place are read and
 * written one by one, without a lock: what comes of it is a wrong hint. Cost: a load and a compare for each buffer looked at, 1 KiB.
 */
#include "pg_pagecast.h"

/* The interval is kept in units of about a millisecond, beside the table's name. */
#define UNIT_BITS 20

static inline Recurrence *
place_of(uint32 table)
{
	return &shared->recurrences[table * 0x9e3779b1u >> (32 - RECURRENCE_BITS)];
}

static inline bool
is_of(uint64 known, uint32 table)
{
	return known >> 32 == table;
}

/* A scan of the whole table begins. */
void
recurrence_note(uint32 table, uint64 now)
{
	Recurrence *place = place_of(table);
	uint64		known = pg_atomic_read_u64(&place->table);
	uint64		since = (now - pg_atomic_read_u64(&place->last)) >> UNIT_BITS;
	uint64		interval = 0;

	if (is_of(known, table))
	{
		uint64		before = (uint32) known;

		interval = Min(before > 0 ? (before + since) / 2 : since, PG_UINT32_MAX);
	}
	pg_atomic_write_u64(&place->last, now);
	pg_atomic_write_u64(&place->table, (uint64) table << 32 | interval);
}

/* What is thought of a page of the table: `uses`, and more if the table was read whole twice. */
uint64
recurrence_expect(uint64 uses, uint32 table, BlockNumber block, uint8 usage)
{
	Recurrence *place = place_of(table);
	uint64		known = pg_atomic_read_u64(&place->table);

	if (!is_of(known, table) || (uint32) known == 0)
		return uses;
	return predictor_read_every(uses, table, block, usage, (uint64) (uint32) known << UNIT_BITS, pg_atomic_read_u64(&place->last));
}
