using System;
using System.Security.Cryptography;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <content>Reads of boards.</content>
    public sealed partial class ScoregateClient
    {
        private const double DownloadS = 120;
        private const string DigestKind = "sha256:";

        /// <summary>List the boards by name. Pass <c>Next</c> as the cursor of the next page.</summary>
        public Task<BoardPage> Boards(
            long? limit = null, string cursor = null, CancellationToken cancel = default(CancellationToken)) =>
            Get("/v1/boards" + new Query().Add("limit", limit).Add("cursor", cursor), item => new BoardPage(item), cancel);

        /// <summary>Describe a board.</summary>
        public Task<Board> Board(string board, CancellationToken cancel = default(CancellationToken)) =>
            Get(BoardPath(board), item => new Board(item), cancel);

        /// <summary>Read a page of a board, best first.</summary>
        public Task<EntryPage> Entries(
            string board, EntryQuery query = null, CancellationToken cancel = default(CancellationToken))
        {
            query = query ?? new EntryQuery();
            var path = BoardPath(board) + "/entries" + query.ToQuery();
            return Get(path, item => new EntryPage(item), cancel, asPlayer: query.Friends || HasToken);
        }

        /// <summary>Read a player's entry, null if there is none.</summary>
        public async Task<Entry> Entry(
            string board, string player, string window = null, CancellationToken cancel = default(CancellationToken))
        {
            try
            {
                var path = EntryPath(board, player) + new Query().Add("window", window);
                return await Get(path, item => new Entry(item), cancel, asPlayer: HasToken);
            }
            catch (ScoregateError error) when (error.Status == 404 && IsUnranked(error))
            {
                return null;
            }
        }

        /// <summary>Read a player's entry and those up to <paramref name="radius"/> ranks above and below it.</summary>
        public Task<EntryPage> Around(
            string board, string player, long? radius = null, CancellationToken cancel = default(CancellationToken)) =>
            Get(
                EntryPath(board, player) + "/around" + new Query().Add("radius", radius),
                item => new EntryPage(item),
                cancel,
                asPlayer: HasToken);

        /// <summary>
        /// Download the asset of a board, such as its map, and compare its digest. Keep it: it never changes. A damaged
        /// file is downloaded again.
        /// </summary>
        public Task<byte[]> Asset(string board, string digest, CancellationToken cancel = default(CancellationToken))
        {
            var name = digest.StartsWith(DigestKind, StringComparison.Ordinal)
                ? digest.Substring(DigestKind.Length)
                : digest;
            var path = BoardPath(board) + "/assets/" + Query.Segment(name);
            Func<WireRequest> make = () =>
            {
                var request = connection.Request("GET", path);
                request.TimeoutS = DownloadS;
                return request;
            };
            return connection.Send(make, answer => Whole(answer.Body, name), true, connection.Attempts, cancel);
        }

        private static byte[] Whole(byte[] content, string digest)
        {
            using (var sha256 = SHA256.Create())
            {
                if (Hex.Of(sha256.ComputeHash(content)) != digest)
                {
                    throw new NoAnswerException("the file did not arrive whole", true);
                }
            }

            return content;
        }

        private static bool IsUnranked(ScoregateError error)
        {
            var ranked = error.Problem["ranked"];
            return ranked.Kind == JsonKind.Boolean && !ranked.AsBool();
        }

        private static string EntryPath(string board, string player) =>
            BoardPath(board) + "/entries/" + Query.Segment(player);
    }
}
