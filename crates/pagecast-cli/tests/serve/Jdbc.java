// What PostgreSQL's JDBC driver does with a server, on the port that is the argument: metadata as
// tools ask for it, parameters, rows in parts, errors.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

public class Jdbc {
    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) {
            values.add(rows.getString(name));
        }
        return values;
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        check(metadata.getDatabaseMajorVersion() == 16, metadata.getDatabaseProductVersion());
        List<String> schemas = column(metadata.getSchemas(), "TABLE_SCHEM");
        check(schemas.contains("public"), schemas);
        List<String> tables = column(metadata.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
        check(tables.contains("lineitem") && tables.size() == 8, tables);
        List<String> columns = column(metadata.getColumns(null, "public", "nation", "%"), "COLUMN_NAME");
        check(columns.equals(List.of("n_nationkey", "n_name", "n_regionkey", "n_comment")), columns);
        check(column(metadata.getPrimaryKeys(null, "public", "nation"), "COLUMN_NAME").isEmpty(), "keys");
    }

    static void parameters(Connection connection) throws SQLException {
        String sql = "SELECT count(*), sum(l_extendedprice) FROM lineitem WHERE l_shipdate < ? AND l_quantity > ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            // From the fifth time on the driver prepares it on the server, and asks for the binary format.
            BigDecimal first = null;
            for (int time = 0; time < 8; time++) {
                statement.setDate(1, Date.valueOf("1995-01-01"));
                statement.setBigDecimal(2, new BigDecimal("10.5"));
                try (ResultSet rows = statement.executeQuery()) {
                    check(rows.next() && rows.getLong(1) > 0, "no rows");
                    first = first == null ? rows.getBigDecimal(2) : first;
                    check(first.equals(rows.getBigDecimal(2)), rows.getBigDecimal(2));
                }
            }
        }
    }

    static void parts(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(100);
            try (ResultSet rows = statement.executeQuery("SELECT o_orderkey, o_orderdate FROM orders")) {
                int count = 0;
                while (rows.next()) {
                    check(rows.getDate(2) != null, "no date");
                    count++;
                }
                check(count == 15000, count);
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void errors(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM nowhere");
            throw new AssertionError("a table that is not there was read");
        } catch (SQLException error) {
            check(error.getSQLState().equals("42P01"), error.getSQLState());
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT sum(value) FROM generate_series(1, 1000000000000)");
            throw new AssertionError("a query without an end has ended");
        } catch (SQLException error) {
            check(error.getSQLState().equals("57014"), error.getSQLState());
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/pagecast";
        try (Connection connection = DriverManager.getConnection(url, "java", "")) {
            metadata(connection);
            parameters(connection);
            parts(connection);
            errors(connection);
        }
        System.out.println("done");
    }
}
