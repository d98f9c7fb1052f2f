using System;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>
    /// The client of one player's game. Every method raises <see cref="ScoregateError"/> for a refusal, for an
    /// answer that cannot be read, and with status 0 if no attempt was answered. In Unity, call it on the main thread.
    /// </summary>
    public sealed partial class ScoregateClient
    {
        private readonly Connection connection;

        /// <summary>Make a client of the gateway at a URL, which has no "/v1".</summary>
        public ScoregateClient(string baseUrl, ScoregateOptions options = null)
        {
            options = options ?? new ScoregateOptions();
            connection = new Connection(baseUrl, options);
            var folder = options.QueueFolder ?? Defaults.QueueFolder();
            queue = folder == null ? null : new RunQueue(folder);
        }

        /// <summary>The player's token. Keep it: it is valid for a year.</summary>
        public string Token
        {
            get => connection.Token;
            set => connection.Token = value;
        }

        /// <summary>The seconds by which the gateway's clock is ahead of the device's, as learnt from a refusal.</summary>
        public double ClockOffsetS => connection.OffsetS;

        /// <summary>Create an anonymous player, as whom this client acts from now on.</summary>
        public async Task<Player> CreatePlayer(string name = null, CancellationToken cancel = default(CancellationToken))
        {
            var content = new JsonObject().AddIfGiven("name", name).Build();
            var request = connection.Request("POST", "/v1/players");
            var json = await connection.Call(request, content, cancel, isSafe: false);
            var player = Connection.Read(json, item => new Player(item));
            Token = player.Token;
            return player;
        }

        /// <summary>
        /// Open a run. <paramref name="nameSignature"/> is the studio's signature of the board's name, if the run may
        /// open the board.
        /// </summary>
        public async Task<Run> OpenRun(
            string board,
            string build,
            string nameSignature = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var content = new JsonObject().Add("build", build).AddIfGiven("name_signature", nameSignature).Build();
            var request = connection.AsPlayer(connection.Request("POST", BoardPath(board) + "/runs"));
            var json = await connection.Call(request, content, cancel, isSafe: false);
            return Connection.Read(json, item => new Run(item));
        }

        /// <summary>Submit a run and return when the gateway has stored it. Safe to repeat with the same claim.</summary>
        public Task<Receipt> Submit(Run run, Claim claim, CancellationToken cancel = default(CancellationToken)) =>
            SendClaim(run, claim.Body(), cancel);

        /// <summary>
        /// Submit a run with only its recording's digest, on a board that offers this (<c>RevealS</c>). Keep the
        /// recording, and send it with <see cref="Reveal"/> when <see cref="Reveals"/> lists it; or let
        /// <see cref="SubmitLater"/> do all of that.
        /// </summary>
        public Task<Receipt> Commit(Run run, Claim claim, CancellationToken cancel = default(CancellationToken)) =>
            SendClaim(run, claim.CommittedBody(), cancel);

        private async Task<Receipt> SendClaim(Run run, byte[] body, CancellationToken cancel)
        {
            var json = await connection.CallSigned(ScoresPath(run.Board), run.Ticket, run.Key, body, cancel);
            return Connection.Read(json, item => new Receipt(item));
        }

        /// <summary>Whether reads of standings say who looks: a banned player may be shown a board of their own.</summary>
        private bool HasToken => !string.IsNullOrEmpty(connection.Token);

        private async Task<T> Get<T>(
            string pathAndQuery, Func<JsonValue, T> read, CancellationToken cancel, bool asPlayer = false)
        {
            var request = connection.Request("GET", pathAndQuery);
            var json = await connection.Call(asPlayer ? connection.AsPlayer(request) : request, cancel);
            return Connection.Read(json, read);
        }

        private static string BoardPath(string board) => "/v1/boards/" + Query.Segment(board);

        internal static string ScoresPath(string board) => BoardPath(board) + "/scores";
    }
}
