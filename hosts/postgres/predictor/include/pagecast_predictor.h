/*
 * pagecast's predictor and steering: the C side of predictor/src/lib.rs.
 *
 * Times are nanoseconds of a clock that never goes back. A relation is any 32-bit name that the
 * caller gives it, the same in all processes. Functions marked "lock" are called by one process at
 * a time; the others by any number at once, and they never wait. No function allocates, and none
 * unwinds or jumps.
 */
#ifndef PAGECAST_PREDICTOR_H
#define PAGECAST_PREDICTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The shared memory, as predictor_format() has made it. */
typedef struct PredictorMemory
{
	uint64_t   *at;
	size_t		words;
} PredictorMemory;

typedef struct PredictorConfig
{
	uint32_t	scans;			/* that may run at once */
	uint32_t	words;			/* of 8 bytes, for the blocks of all scans */
	uint32_t	cells;			/* of 256 blocks, remembered to be quick */
	uint32_t	scan_words;		/* most for the blocks of one scan; more are one run */
	uint32_t	marks;			/* of trailing index scans */
} PredictorConfig;

/* Blocks first, first + 1, ... at positions that rise evenly from `position` by `span` in all. */
typedef struct PredictorRun
{
	uint32_t	first;
	uint32_t	blocks;
	uint64_t	position;
	uint64_t	span;
} PredictorRun;

typedef struct PredictorView
{
	uint64_t	position;
	uint64_t	length;
	double		pace;			/* nanoseconds per position */
	uint64_t	started;
} PredictorView;

/* The places for statements that come back: predictor_templates_bytes() of shared memory, zeros at
 * first. `start` is the second since the epoch at which the clock of the caller was 0. */
typedef struct PredictorTemplates
{
	void	   *at;
	uint64_t	start;
} PredictorTemplates;

/* Times in seconds since the epoch. */
typedef struct PredictorTemplate
{
	uint64_t	fingerprint;
	uint64_t	scan;			/* that is expected, if one is */
	uint64_t	length;			/* of its axis; 0: none is expected */
	double		due;			/* 0: no run is expected */
	double		last;			/* when the last run began */
	double		trust;			/* 0 to 1: share of the forecasts that came true, the later ones weighing more */
	uint32_t	runs;
	uint32_t	came;			/* forecasts that came true */
	uint32_t	failed;			/* and those that did not */
} PredictorTemplate;

typedef enum PredictorStatus
{
	PREDICTOR_OK = 0,
	PREDICTOR_FULL = 1,			/* the scan runs unpredicted, and is counted */
	PREDICTOR_FAULTY = 2		/* the blocks are not in order, or the memory is no predictor */
} PredictorStatus;

/* A buffer ahead of the clock's hand. Inputs: page, uses, frame, usage. */
typedef struct PredictorCandidate
{
	uint64_t	page;			/* see predictor_page() */
	uint64_t	uses;			/* what the library remembers of the buffer; 0 at the start */
	uint64_t	wanted_in;		/* nanoseconds; UINT64_MAX if nothing is known */
	uint32_t	frame;			/* the caller's own */
	uint8_t		usage;			/* usage count: as found, then as it should be */
	bool		predicted;		/* a scan wants it */
} PredictorCandidate;

/* What earlier uses of a page say of its next one, `idle` after the last. */
typedef enum PredictorFrequency
{
	FREQUENCY_MAX = 0,			/* the greater of the usual interval and `idle` */
	FREQUENCY_MIN = 1,			/* the lesser of the two */
	FREQUENCY_MEAN = 2,			/* the interval; when that has passed, the mean of both */
	FREQUENCY_OFF = 3			/* nothing */
} PredictorFrequency;

/* What becomes of pages of which nothing is known. */
typedef enum PredictorFallback
{
	FALLBACK_CLOCK = 0,			/* the clock goes on with them */
	FALLBACK_LRU = 1,			/* they go first, the least recently used before all */
	FALLBACK_RANDOM = 2			/* they go first, drawn at random */
} PredictorFallback;

typedef struct PredictorSwitches
{
	uint8_t		frequency;
	uint8_t		fallback;
} PredictorSwitches;

typedef struct PredictorChoice
{
	uint32_t	predicted;		/* buffers that a scan wants */
	uint32_t	by_uses;		/* buffers that were judged by their uses */
	uint32_t	given;			/* buffers that the hand will take */
	uint32_t	kept;			/* that it would have taken otherwise, and a scan wants */
} PredictorChoice;

static inline uint64_t
predictor_page(uint32_t relation, uint32_t block)
{
	return ((uint64_t) relation << 32) | block;
}

/* The place of a scan in arrays of config.scans elements. */
static inline uint32_t
predictor_slot(uint64_t scan)
{
	return (uint32_t) (scan >> 32);
}

extern size_t predictor_words(const PredictorConfig *config);
extern bool predictor_format(PredictorMemory memory, const PredictorConfig *config);

/* Lock. Runs in the order of their first block; `length` is the end of the axis; the scan's name
 * goes to *scan. */
extern int	predictor_register_runs(PredictorMemory memory, uint8_t kind, uint32_t relation, const PredictorRun *runs,
									size_t count, uint64_t length, uint64_t now, uint64_t *scan);

/* Lock. Bit i of word w is block first + 64 * w + i; positions are ranks. */
extern int	predictor_register_bitset(PredictorMemory memory, uint8_t kind, uint32_t relation, uint32_t first,
									  const uint64_t *bits, size_t count, uint64_t length, uint64_t now, uint64_t *scan);

/* Lock. A scan that reads `chunks` chunks in any order: each run has the number of its chunk for
 * position, and span 0. */
extern int	predictor_register_unordered(PredictorMemory memory, uint8_t kind, uint32_t relation, const PredictorRun *runs,
										 size_t count, uint64_t chunks, uint64_t now, uint64_t *scan);

/* All blocks of a chunk of such a scan have been read. Each chunk counts once. */
extern void predictor_complete(PredictorMemory memory, uint64_t scan, uint64_t chunk, uint64_t now);

/* Lock. Whether the scan was running. */
extern bool predictor_finish(PredictorMemory memory, uint64_t scan, uint64_t now);

/* Progress, in positions or by the block that the scan has come to; the latter says whether the
 * scan still runs. */
extern void predictor_report(PredictorMemory memory, uint64_t scan, uint64_t position, uint64_t now);
extern bool predictor_reach(PredictorMemory memory, uint64_t scan, uint32_t relation, uint32_t block, uint64_t now);

/* How far, in positions, blocks may be read from their place, by the correlation of index and
 * table; UINT64_MAX if that is too low. */
extern uint64_t predictor_scatter(double correlation, uint64_t blocks);

/* An index scan has come to a block by an entry, a block of a relation of the index's own. And the
 * entry nearest to `near` of those that have led there; whether there is any. */
extern void predictor_mark(PredictorMemory memory, uint32_t relation, uint32_t block, uint32_t index, uint32_t entry);
extern bool predictor_marked(PredictorMemory memory, uint32_t relation, uint32_t block, uint32_t index, uint32_t near,
							 uint32_t *entry);

extern bool predictor_view(PredictorMemory memory, uint64_t scan, PredictorView *view);
extern uint64_t predictor_next_access(PredictorMemory memory, uint32_t relation, uint32_t block, uint64_t now);

extern size_t predictor_templates_bytes(void);
extern void predictor_templates_format(PredictorTemplates templates);

/* Lock. A statement begins to read a table: from now on the run after this one is expected, in
 * `again_in` seconds if that is not 0. */
extern void predictor_begins(PredictorMemory memory, PredictorTemplates templates, uint64_t fingerprint, uint32_t table,
							 uint32_t again_in, uint64_t now);

/* Lock. As predictor_finish(), for a scan that has read all its blocks: it is expected again. */
extern bool predictor_ends(PredictorMemory memory, PredictorTemplates templates, uint64_t fingerprint, uint64_t scan,
						   uint64_t now);

/* Lock. Trusts statements less that are overdue, and says whether any is expected. To be called now
 * and then. */
extern bool predictor_review(PredictorMemory memory, PredictorTemplates templates, uint64_t now);

/* Lock. Whether the statement was known. */
extern bool predictor_forget(PredictorMemory memory, PredictorTemplates templates, uint64_t fingerprint, uint64_t now);

/* While nobody has the lock: the statement of a place, counted from 0. 1 if one has it, 0 if none,
 * -1 behind the last place. */
extern int	predictor_template(PredictorMemory memory, PredictorTemplates templates, size_t place, PredictorTemplate *view);

/* Decides which `victims` of the buffers the hand is to take. */
extern void predictor_choose(PredictorMemory memory, PredictorCandidate *buffers, size_t count, size_t victims,
							 const PredictorSwitches *switches, uint64_t now, PredictorChoice *choice);

/* After predictor_choose(), where no hand will pass the buffers: lowers the usage counts of those
 * that are kept. */
extern void predictor_pass(PredictorCandidate *buffers, size_t count);

/* Notes that a registered scan has read the block into, or found it in, a buffer whose usage count
 * is now `usage`. Whether it was found because predictor_choose() had kept it. */
extern bool predictor_read_by_scan(uint64_t *uses, uint32_t relation, uint32_t block, uint8_t usage, bool came_in,
								   uint64_t now);

/* Notes that the block was found in a buffer otherwise. Whether predictor_choose() had kept it,
 * once for each time. */
extern bool predictor_found(uint64_t *uses, uint32_t relation, uint32_t block);

#endif							/* PAGECAST_PREDICTOR_H */
