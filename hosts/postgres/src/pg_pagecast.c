/*
 * Loading: settings, shared memory, hooks.
 */
#include "recurring.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/* Blocks for which it is remembered who comes there first; core says: too few cost time only. */
#define BLOCKS_PER_CELL 256
/* Of trailing index scans, 16 bytes each: pages that are not in the pool bear some too, and those
 * that are seldom more than one. */
#define MARKS_PER_BUFFER 2
/* One scan may not take more than this part of the memory for blocks. */
#define SCAN_SHARE 8

SharedState *shared = NULL;
ScanSlot   *scan_slots = NULL;
pg_atomic_uint64 *buffer_uses = NULL;
PredictorMemory predictor;
void	   *shared_templates = NULL;

bool		pagecast_enabled = true;
int			pagecast_mode = MODE_STEERING;
int			pagecast_samples = 10;
int			pagecast_bulk = 10;
double		pagecast_read_time = -1;
int			pagecast_frequency = FREQUENCY_MAX;
int			pagecast_fallback = FALLBACK_CLOCK;
int			pagecast_max_scans = 256;
int			pagecast_memory = 8 * 1024;
bool		pagecast_forecast = true;
int			pagecast_again_in = 0;

static const struct config_enum_entry modes[] = {
	{"steering", MODE_STEERING, false},
	{"freelist", MODE_FREELIST, false},
	{"clock", MODE_CLOCK, false},
	{NULL, 0, false}
};

/* As the simulator's policies have them. */
static const struct config_enum_entry frequencies[] = {
	{"max", FREQUENCY_MAX, false},
	{"min", FREQUENCY_MIN, false},
	{"mean", FREQUENCY_MEAN, false},
	{"off", FREQUENCY_OFF, false},
	{NULL, 0, false}
};

static const struct config_enum_entry fallbacks[] = {
	{"clock", FALLBACK_CLOCK, false},
	{"lru", FALLBACK_LRU, false},
	{"random", FALLBACK_RANDOM, false},
	{NULL, 0, false}
};

static shmem_request_hook_type next_shmem_request = NULL;
static shmem_startup_hook_type next_shmem_startup = NULL;

static void
define_settings(void)
{
	DefineCustomBoolVariable("pg_pagecast.enabled",
							 "Registers the scans of this session and spares the pages that scans will read.",
							 "Off, the session does as a server without pg_pagecast does; scans of other sessions go on.",
							 &pagecast_enabled, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_pagecast.mode",
							 "How victims are chosen.",
							 "steering sets the usage counts ahead of the clock's hand; freelist puts victims on the list of buffers to be taken first; clock leaves them to the server.",
							 &pagecast_mode, MODE_STEERING, modes, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pagecast.samples",
							"Buffers looked at for each one that is given up.",
							"More find better victims, take longer, and have the clock's hand go round sooner.",
							&pagecast_samples, 10, 1, MOST_SAMPLES, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pagecast.bulk",
							"Victims chosen at once.",
							"Of samples * bulk buffers those go that are wanted last.",
							&pagecast_bulk, 10, 1, MOST_BULK, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_pagecast.frequency",
							 "What earlier uses of a page say of its next.",
							 "The greater or lesser of the usual interval and the time since the last use, their mean, or nothing.",
							 &pagecast_frequency, FREQUENCY_MAX, frequencies, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_pagecast.fallback",
							 "What becomes of pages of which nothing is known.",
							 "clock leaves them to the server; with lru and random they go first.",
							 &pagecast_fallback, FALLBACK_CLOCK, fallbacks, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("pg_pagecast.read_time",
							 "Time that a read of a block takes; where choosing victims takes longer than the reads that it saves, it rests.",
							 "-1 means that it is measured.",
							 &pagecast_read_time, -1, -1, 1000, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pagecast.memory",
							"Shared memory for the blocks of running scans.",
							"A scan that finds no room runs as on a server without pg_pagecast, and is counted as refused.",
							&pagecast_memory, 8 * 1024, 256, 16 * 1024 * 1024, PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pagecast.max_scans",
							"Scans that can be registered at the same time.",
							NULL,
							&pagecast_max_scans, 256, 1, 65536, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_pagecast.forecast",
							 "Expects statements that come back, and keeps what they will read.",
							 "On, the server computes a queryid for each statement, unless compute_query_id is off.",
							 &pagecast_forecast, true, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pagecast.again_in",
							"After how long the statements of this session come again, from start to start; for schedulers.",
							"0 means that it is learned.",
							&pagecast_again_in, 0, 0, INT_MAX, PGC_USERSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pagecast.cooperation_share",
							"Most of shared_buffers that cooperative scans may have, in per cent.",
							NULL,
							&pagecast_cooperation_share, 90, 1, 100, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_pagecast.cooperation",
							 "Whether sequential scans of large tables read them together, each in the order that serves all.",
							 "Off, they read in the order of blocks.",
							 &pagecast_cooperation, true, PGC_USERSET, 0, NULL, NULL, NULL);
	/* Of use to nobody but our tests. With it small tables take places that large ones need. */
	DefineCustomBoolVariable("pg_pagecast.cooperation_forced",
							 "Has scans of any table of two blocks or more cooperate; for tests.",
							 NULL,
							 &pagecast_cooperation_forced, false, PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomRealVariable("pg_pagecast.cooperation_least",
							 "Tables larger than this share of shared_buffers are read together.",
							 NULL,
							 &pagecast_cooperation_least, 0.25, 0, 1000, PGC_USERSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("pg_pagecast");
}

static PredictorConfig
predictor_config(void)
{
	PredictorConfig config = {0};

	config.scans = pagecast_max_scans;
	config.words = (uint32) pagecast_memory * (1024 / sizeof(uint64));
	config.cells = NBuffers / BLOCKS_PER_CELL * 4 + 64;
	config.scan_words = config.words / SCAN_SHARE;
	config.marks = NBuffers * MARKS_PER_BUFFER;
	return config;
}

/* Where each array begins behind SharedState, and how long all of it is. */
static Size
layout(Size *slots, Size *uses, Size *words, Size *templates)
{
	PredictorConfig config = predictor_config();
	Size		size = MAXALIGN(sizeof(SharedState));

	*slots = size;
	size = add_size(size, MAXALIGN(mul_size(sizeof(ScanSlot), pagecast_max_scans)));
	*uses = size;
	size = add_size(size, mul_size(sizeof(pg_atomic_uint64), NBuffers));
	*words = size;
	*templates = add_size(size, mul_size(sizeof(uint64), predictor_words(&config)));
	return add_size(*templates, recurring_size());
}

static void
request_shared_memory(void)
{
	Size		slots,
				uses,
				words,
				templates;

	if (next_shmem_request)
		next_shmem_request();
	RequestAddinShmemSpace(layout(&slots, &uses, &words, &templates));
	RequestAddinShmemSpace(cooperation_size());
	chunk_counts_request();
	RequestNamedLWLockTranche("pg_pagecast", 1);
	RequestNamedLWLockTranche("pg_pagecast_cooperation", 1);
}

static void
refuse_memory(void)
{
	ereport(FATAL,
			(errmsg("pg_pagecast could not lay out its shared memory"),
			 errhint("Lower pg_pagecast.memory or pg_pagecast.max_scans.")));
}

static void
format_shared_memory(void)
{
	PredictorConfig config = predictor_config();

	memset(shared, 0, sizeof(*shared));
	shared->lock = &GetNamedLWLockTranche("pg_pagecast")->lock;
	pg_atomic_init_u64(&shared->frontier, 0);
	pg_atomic_init_u64(&shared->rests_until, 0);
	pg_atomic_init_u64(&shared->rest, 0);
	for (int i = 0; i < TRIAL_COUNTS; i++)
		pg_atomic_init_u64(&shared->trial[i], 0);
	pg_atomic_init_u32(&shared->active, 0);
	pg_atomic_init_u64(&shared->refusal_told, 0);
	for (int i = 0; i < COUNTERS; i++)
		pg_atomic_init_u64(&shared->counters[i], 0);
	pg_atomic_init_u64(&shared->counted_since, (uint64) GetCurrentTimestamp());
	for (int i = 0; i < pagecast_max_scans; i++)
	{
		scan_slots[i].scan = NO_SCAN;
		scan_slots[i].member = NO_MEMBER;
		pg_atomic_init_u64(&scan_slots[i].reached, 0);
		pg_atomic_init_u64(&scan_slots[i].ended, NO_SCAN);
	}
	for (int i = 0; i < NBuffers; i++)
		pg_atomic_init_u64(&buffer_uses[i], 0);
	chunk_memory_format();
	recurring_format();
	if (!predictor_format(predictor, &config))
		refuse_memory();
}

static void
start_shared_memory(void)
{
	Size		slots,
				uses,
				words,
				templates,
				size = layout(&slots, &uses, &words, &templates);
	void	   *memory;
	bool		found;

	if (next_shmem_startup)
		next_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("pg_pagecast", size, &found);
	scan_slots = (ScanSlot *) ((char *) shared + slots);
	buffer_uses = (pg_atomic_uint64 *) ((char *) shared + uses);
	predictor.at = (uint64_t *) ((char *) shared + words);
	predictor.words = (templates - words) / sizeof(uint64);
	shared_templates = (char *) shared + templates;
	if (!found)
		format_shared_memory();
	memory = ShmemInitStruct("pg_pagecast cooperation", cooperation_size(), &found);
	if (!cooperation_start(memory, cooperation_size(), found))
		refuse_memory();
	chunk_counts_start();
	LWLockRelease(AddinShmemInitLock);
}

bool
pagecast_loaded(void)
{
	return shared != NULL;
}

/* PG_MODULE_MAGIC refuses another major version; a server with other pages is refused here. */
static void
check_server(void)
{
	const char *block_size = GetConfigOption("block_size", false, false);

	if (atoi(block_size) != BLCKSZ)
		ereport(FATAL,
				(errmsg("pg_pagecast was built for pages of %d bytes, and this server has pages of %s", BLCKSZ, block_size),
				 errhint("Build it with the pg_config of this server.")));
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
	{
		ereport(WARNING,
				(errmsg("pg_pagecast does nothing until the server is restarted with it"),
				 errhint("Add pg_pagecast to shared_preload_libraries and restart the server.")));
		return;
	}
	check_server();
	define_settings();
	if (pagecast_forecast)
		EnableQueryId();
	next_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	executor_install_hooks();
	explain_install_hook();
	relation_counts_install_hook();
}
