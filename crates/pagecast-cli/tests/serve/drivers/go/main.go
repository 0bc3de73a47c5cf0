// What pgx and lib/pq do with a server, on the port that is the argument.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

const long = "SELECT sum(value) FROM generate_series(1, 1000000000000)"

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%v (%T) is not %v (%T)", found, found, wanted, wanted))
	}
}

// All types that a row of it has, each read as Go has it.
func values(ctx context.Context, connection *pgx.Conn) {
	var (
		truth             bool
		small             int16
		middle            int32
		large             int64
		float, double     float64
		number, text      string
		bytes             []byte
		day, moment, zone time.Time
		span              time.Duration
		list              []*int64
		words             []string
		null              *string
	)
	row := connection.QueryRow(ctx, `SELECT true, 7::smallint, 7::int, 7::bigint, 0.5::double precision, 0.1::double precision,
		12.340::numeric(10, 3)::text, 'text', '\x01ff'::bytea, DATE '2024-02-29', TIMESTAMP '1999-12-31 23:59:59.5',
		TIMESTAMPTZ '2024-01-01 00:00:00+00', INTERVAL '2 hours', ARRAY[1, NULL, 3], ARRAY['a b'], NULL::text`)
	check(row.Scan(&truth, &small, &middle, &large, &float, &double, &number, &text, &bytes, &day, &moment, &zone,
		&span, &list, &words, &null))
	same([]any{truth, small, middle, large, float, double}, []any{true, int16(7), int32(7), int64(7), 0.5, 0.1})
	same([]any{number, text, bytes}, []any{"12.340", "text", []byte{1, 255}})
	same(day.Format(time.DateOnly), "2024-02-29")
	same(moment.Format(time.RFC3339Nano), "1999-12-31T23:59:59.5Z")
	same(zone.Unix(), int64(1704067200))
	same(span, 2*time.Hour)
	same([]any{*list[0], list[1] == nil, words, null == nil}, []any{int64(1), true, []string{"a b"}, true})
	var exact float64
	check(connection.QueryRow(ctx, "SELECT 12.340::numeric(10, 3)").Scan(&exact))
	same(exact, 12.34)
}

func parameters(ctx context.Context, connection *pgx.Conn) {
	count := func(sql string, given ...any) (count int64) {
		check(connection.QueryRow(ctx, sql, given...).Scan(&count))
		return
	}
	same(count("SELECT count(*) FROM nation WHERE n_regionkey = $1", 1), int64(5))
	same(count("SELECT count(*) FROM nation WHERE n_name = $1", "PERU"), int64(1))
	same(count("SELECT count(*) FROM nation WHERE n_name = ANY($1)", []string{"PERU", "CHINA"}), int64(2))
	same(count("SELECT count(*) FROM nation WHERE n_nationkey = ANY($1::bigint[])", []int64{1, 2, 3}), int64(3))
	same(count("SELECT count(*) FROM orders WHERE o_orderdate < $1", time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)), int64(0))
	same(count("SELECT count(*) FROM lineitem WHERE l_discount > $1", 0.5), int64(0))
	rows, err := connection.Query(ctx, "SELECT o_orderkey FROM orders")
	check(err)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	check(err)
	same(len(keys), 15000)
	batch := &pgx.Batch{}
	batch.Queue("SELECT n_name FROM nation WHERE n_nationkey = $1", 3)
	batch.Queue("SELECT count(*) FROM nation")
	results := connection.SendBatch(ctx, batch)
	for range 2 {
		rows, err := results.Query()
		check(err)
		for rows.Next() {
		}
		check(rows.Err())
	}
	check(results.Close())
}

func faults(ctx context.Context, connection *pgx.Conn) {
	for sql, code := range map[string]string{"SELECT * FROM nowhere": "42P01", "SELEC 1": "42601", "SELECT 1/0": "22012"} {
		_, err := connection.Exec(ctx, sql)
		var fault *pgconn.PgError
		if !errors.As(err, &fault) {
			panic(sql)
		}
		same(fault.Code, code)
	}
}

// Whoever gives up sends a request to cancel.
func cancelling(where string) {
	config, err := pgx.ParseConfig(where)
	check(err)
	connection, err := pgx.ConnectConfig(context.Background(), config)
	check(err)
	defer connection.Close(context.Background())
	time.AfterFunc(300*time.Millisecond, func() { check(connection.PgConn().CancelRequest(context.Background())) })
	_, err = connection.Exec(context.Background(), long)
	var fault *pgconn.PgError
	if !errors.As(err, &fault) || fault.Code != "57014" {
		panic(err)
	}
}

func byPq(where string) {
	database, err := sql.Open("postgres", where)
	check(err)
	defer database.Close()
	var name string
	var null sql.NullInt64
	check(database.QueryRow("SELECT n_name, NULL::bigint FROM nation WHERE n_nationkey = $1", 3).Scan(&name, &null))
	same(null.Valid, false)
	var count int
	check(database.QueryRow("SELECT count(*) FROM nation WHERE n_name = ANY($1)", pq.Array([]string{"PERU", "CHINA"})).Scan(&count))
	same(count, 2)
	rows, err := database.Query("SELECT true, 0.5::double precision, '\\x01ff'::bytea, DATE '2024-02-29', ARRAY[1, 3]")
	check(err)
	for rows.Next() {
		var truth bool
		var float float64
		var bytes []byte
		var day time.Time
		var list pq.Int64Array
		check(rows.Scan(&truth, &float, &bytes, &day, &list))
		same([]any{truth, float, bytes, day.Year(), []int64(list)}, []any{true, 0.5, []byte{1, 255}, 2024, []int64{1, 3}})
	}
	check(rows.Err())
	_, err = database.Exec("SELECT * FROM nowhere")
	var fault *pq.Error
	if !errors.As(err, &fault) || fault.Code != "42P01" {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	if _, err = database.ExecContext(ctx, long); err == nil {
		panic("nothing was cancelled")
	}
}

func main() {
	where := fmt.Sprintf("postgres://go@127.0.0.1:%s/pagecast?sslmode=disable", os.Args[1])
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, where)
	check(err)
	values(ctx, connection)
	parameters(ctx, connection)
	faults(ctx, connection)
	check(connection.Close(ctx))
	cancelling(where)
	byPq(where)
	fmt.Println("done")
}
