/*
 * A cooperative scan's chunk, asked of the kernel before it is read.
 *
 * A scan that takes its chunks in the order that serves all jumps. The kernel's own read-ahead then
 * starts anew at each chunk with small requests, and at its end reads what nobody asked for. So the
 * whole chunk is asked for beforehand, in requests of PIECE blocks, without what the pool has.
 *
 * Source: ours; PostgreSQL reads ahead in bitmap scans block by block. Cost: a look at the buffer
 * table for each block, and a system call for each piece.
 */
#include "pg_pagecast.h"

#include "storage/bufmgr.h"

/* 256 KiB: the kernel takes longer requests apart, and some devices do not take longer ones. */
#define PIECE (256 * 1024 / BLCKSZ)
/* Blocks looked up to tell how much of a chunk is in the pool. */
#define LOOKS 8

static bool
is_in_pool(const RelFileLocator *locator, ForkNumber fork, BlockNumber block)
{
	BufferTag	tag = tag_of_block(locator, fork, block);

	return buffer_of_tag(&tag) >= 0;
}

/* Before the first chunk of a scan. */
void
chunk_read_begin(ChunkReader *reader, Relation relation, ForkNumber fork)
{
	reader->locator = relation_locator(relation);
	block_prefetch_begin(&reader->prefetch, relation, fork);
}

/* Has the kernel read what of these blocks is not in the pool. */
void
chunk_read_ahead(ChunkReader *reader, BlockNumber first, BlockNumber count)
{
	BlockNumber run = 0;

	for (BlockNumber i = 0; i < count; i++)
	{
		bool		missing = !is_in_pool(&reader->locator, reader->prefetch.fork, first + i);

		if (missing)
			run++;
		if (run > 0 && (!missing || run == PIECE))
		{
			block_prefetch(&reader->prefetch, first + i + missing - run, run);
			run = 0;
		}
	}
	if (run > 0)
		block_prefetch(&reader->prefetch, first + count - run, run);
}

/* After the last one, or after an error. Twice does no harm. */
void
chunk_read_end(ChunkReader *reader)
{
	block_prefetch_end(&reader->prefetch);
}

/* How many of these blocks are in the pool, by a few of them. */
BlockNumber
chunk_resident(Relation relation, BlockNumber first, BlockNumber count)
{
	RelFileLocator locator = relation_locator(relation);
	BlockNumber looks = Min(count, LOOKS);
	BlockNumber found = 0;

	for (BlockNumber i = 0; i < looks; i++)
		found += is_in_pool(&locator, MAIN_FORKNUM, first + (uint64) count * (2 * i + 1) / (2 * looks));
	return looks == 0 ? 0 : (uint64) count * found / looks;
}
