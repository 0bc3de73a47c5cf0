/* pagecast from C: open, announce a scan, pin every page, report, look at the counts; change a page
 * and flush it.
 *
 *     make capi && cd hosts/capi
 *     cc -I include examples/read.c .../libpagecast_c.a -lpthread -ldl -lm -o read
 *     ./read FILE COUNTER
 */
#include <pagecast.h>
#include <stdio.h>
#include <stdlib.h>

static void must(enum pagecast_status status, const char *what) {
    if (status != PAGECAST_STATUS_OK) {
        fprintf(stderr, "%s: status %d: %s\n", what, (int)status, pagecast_message());
        exit(1);
    }
}

/* Adds up the bytes of all pages, page by page as a scan would. */
static uint64_t add_up(pagecast_pool *pool, pagecast_relation *table, pagecast_scan *scan) {
    uint64_t sum = 0, done = 0;
    for (uint32_t block = 0; block < pagecast_relation_pages(table); block++) {
        pagecast_page page;
        must(pagecast_pin(pool, table, block, scan, &page), "pin");
        for (size_t i = 0; i < page.length; i++)
            sum += page.data[i];
        done += page.length;
        must(pagecast_unpin(&page), "unpin");
        must(pagecast_scan_report(scan, done), "report");
    }
    return sum;
}

/* What goes wrong is a status and a message, never a crash. */
static void bad_use_is_refused(pagecast_pool *pool, pagecast_relation *table) {
    pagecast_page page;
    pagecast_relation *none = NULL;
    char byte;
    if (pagecast_pin(pool, table, pagecast_relation_pages(table), NULL, &page) != PAGECAST_STATUS_OUT_OF_BOUNDS ||
        pagecast_pin(NULL, table, 0, NULL, &page) != PAGECAST_STATUS_INVALID_ARGUMENT ||
        pagecast_relation_open(pool, "/no/such/file", &none) != PAGECAST_STATUS_IO ||
        pagecast_read(pool, table, UINT64_MAX, 1, NULL, (uint8_t *)&byte) != PAGECAST_STATUS_OUT_OF_BOUNDS) {
        fprintf(stderr, "bad use was not refused\n");
        exit(1);
    }
    must(pagecast_pin(pool, table, 0, NULL, &page), "pin");
    if (pagecast_pool_close(pool) != PAGECAST_STATUS_IN_USE) {
        fprintf(stderr, "the pool was closed under a pin\n");
        exit(1);
    }
    must(pagecast_unpin(&page), "unpin");
    if (pagecast_unpin(&page) != PAGECAST_STATUS_INVALID_ARGUMENT) {
        fprintf(stderr, "a page was unpinned twice\n");
        exit(1);
    }
    printf("refused: %s\n", pagecast_message());
}

/* A log without records, which is always durable. It counts how often it was asked to be. */
static int flush_log(void *context, uint64_t lsn, uint64_t *durable) {
    __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
    *durable = lsn;
    return 0;
}

/* Counts up in the first page of a file that is made if need be. */
static void count_up(pagecast_pool *pool, const char *path) {
    pagecast_relation *counter;
    must(pagecast_relation_open_to_write(pool, path, 1, 1, &counter), path);
    uint32_t first = 0;
    if (pagecast_relation_pages(counter) == 0)
        must(pagecast_relation_grow(pool, counter, 1, &first), "grow");
    pagecast_page_mut page;
    must(pagecast_pin_to_write(pool, counter, first, NULL, &page), "pin to write");
    int count = ++page.data[0];
    must(pagecast_mark_dirty(&page, (uint64_t)count), "mark dirty");
    must(pagecast_unpin_written(&page), "unpin");
    must(pagecast_flush(pool), "flush");
    must(pagecast_relation_close(counter), "close the counter");
    printf("run %d\n", count);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: read FILE COUNTER\n");
        return 2;
    }
    pagecast_options options = pagecast_default_options();
    options.memory = 1 << 20;
    options.page_size = 4096;
    int flushes = 0;
    options.flush_log = flush_log;
    options.log_context = &flushes;
    pagecast_pool *pool;
    must(pagecast_pool_open(&options, &pool), "open a pool");
    pagecast_relation *table;
    must(pagecast_relation_open(pool, argv[1], &table), argv[1]);

    /* The axis of this scan is the file itself: position = byte. */
    uint64_t length = pagecast_relation_length(table);
    pagecast_run run = {.first = 0, .pages = pagecast_relation_pages(table), .position = 0, .span = length};
    pagecast_part part = {.relation = table, .runs = &run, .run_count = 1};
    pagecast_scan *scan;
    must(pagecast_scan_register(pool, 0, length, &part, 1, &scan), "register");
    printf("sum %llu\n", (unsigned long long)add_up(pool, table, scan));
    must(pagecast_scan_finish(scan), "finish");

    uint8_t tail[16];
    size_t count = length < sizeof tail ? (size_t)length : sizeof tail;
    must(pagecast_read(pool, table, length - count, count, NULL, tail), "read");
    bad_use_is_refused(pool, table);
    count_up(pool, argv[2]);
    printf("log flushed %d times\n", flushes);

    pagecast_stats stats;
    must(pagecast_pool_stats(pool, &stats), "stats");
    printf("requests %llu hits %llu loads %llu written %llu pinned %u\n", (unsigned long long)stats.requests,
           (unsigned long long)stats.hits, (unsigned long long)stats.loads, (unsigned long long)stats.pages_written,
           stats.pinned);
    must(pagecast_relation_close(table), "close the file");
    must(pagecast_pool_close(pool), "close the pool");
    return 0;
}
