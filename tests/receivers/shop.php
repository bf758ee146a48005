<?php // A shop that sells one thing and is paid through payd, in plain PHP.
//
// apt-get install php-cli php-sqlite3
// php -S 127.0.0.1:5000 shop.php

const UNIT = 'iso4217/USD';
const VALUE = '1250'; // 12.50 USD, in cents
ini_set('display_errors', '0'); // where PHP shows what broke it answers 200, and no webhook comes again

[$api, $apiKey, $merchant] = [getenv('PAYD_API'), getenv('PAYD_API_KEY'), getenv('PAYD_MERCHANT_ID')];
$secret = base64_decode(substr(getenv('PAYD_WEBHOOK_SECRET'), strlen('whsec_')));

$db = new PDO('sqlite:shop.db'); // in place of your own
$db->exec('CREATE TABLE IF NOT EXISTS orders (reference PRIMARY KEY, unit, value, paid);
    CREATE TABLE IF NOT EXISTS payments (id PRIMARY KEY, version INTEGER);
    CREATE TABLE IF NOT EXISTS webhooks (id PRIMARY KEY);');

function run(string $sql, string|int ...$values): PDOStatement
{
    $statement = $GLOBALS['db']->prepare($sql);
    $statement->execute($values);
    return $statement;
}

function answer(int $status, string|false $words): never
{
    http_response_code($status);
    exit((string) $words);
}

switch ($_SERVER['REQUEST_METHOD'] . ' ' . parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
    case 'GET /':
        echo '<form method="post" action="/buy"><button>Buy for 12.50 USD</button></form>';
        foreach (run('SELECT * FROM orders') as $order) {
            echo "<p>$order[reference]: " . ($order['paid'] ? 'paid' : 'open');
        }
        exit;

    case 'POST /buy':
        $reference = 'ORDER-' . bin2hex(random_bytes(16));
        run('INSERT INTO orders VALUES (?, ?, ?, 0)', $reference, UNIT, VALUE); // its webhooks may come at once
        $body = ['referenceId' => $reference, 'amount' => ['unit' => UNIT, 'value' => VALUE]];
        $headers = ["Api-Key: $apiKey", "Merchant-Id: $merchant", "Idempotency-Key: $reference",
            'Content-Type: application/json'];
        $http = ['method' => 'POST', 'header' => $headers, 'content' => json_encode($body), 'ignore_errors' => true];
        $made = file_get_contents("$api/v1/payments", context: stream_context_create(['http' => $http]));
        $url = json_decode((string) $made)->gatewayUrl ?? answer(502, $made); // an error says what to do
        header("Location: $url");
        answer(303, '');

    case 'POST /webhook':
        $body = file_get_contents('php://input'); // the raw bytes: what was parsed does not verify
        [$id, $sent] = [$_SERVER['HTTP_WEBHOOK_ID'] ?? '', $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? ''];
        $ours = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sent.$body", $secret, true));
        $isOurs = fn (string $one): bool => hash_equals($ours, $one); // there are several during a rotation
        array_filter(explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? ''), $isOurs)
            || answer(400, 'refused: the signature is not ours');
        abs(time() - (int) $sent) <= 300 || answer(400, 'refused: signed more than five minutes ago');

        $payment = json_decode($body)->data;
        $payment->live !== str_starts_with($apiKey, 'svc_test_') || answer(200, 'ignored: of the other mode');
        $order = run('SELECT * FROM orders WHERE reference = ?', $payment->reference_id)->fetchObject();
        $order || answer(200, 'ignored: no order of this shop');
        [$order->unit, $order->value] === [$payment->amount->unit, $payment->amount->value]
            || answer(422, 'refused: not the amount of the order');
        $db->beginTransaction(); // who leaves before the commit has changed nothing
        run('INSERT OR IGNORE INTO webhooks VALUES (?)', $id)->rowCount() || answer(200, 'ignored: a duplicate');
        run('INSERT INTO payments VALUES (?, ?)
            ON CONFLICT DO UPDATE SET version = excluded.version WHERE excluded.version > version',
            $payment->payment_id, $payment->payment_state_version)->rowCount()
            || answer(200, 'ignored: older than what is known');
        if ($payment->status === 'succeeded') { // what ships goods looks at `paid`
            run('UPDATE orders SET paid = 1 WHERE reference = ?', $payment->reference_id);
        }
        $db->commit(); // on the disk before the answer
        answer(200, 'accepted');
}
answer(404, 'Not found');
