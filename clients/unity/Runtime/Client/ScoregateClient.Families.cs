using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <content>Reads of families of boards.</content>
    public sealed partial class ScoregateClient
    {
        /// <summary>List the families by name. Pass <c>Next</c> as the cursor of the next page.</summary>
        public Task<FamilyPage> Families(
            long? limit = null, string cursor = null, CancellationToken cancel = default(CancellationToken)) =>
            Get(
                "/v1/families" + new Query().Add("limit", limit).Add("cursor", cursor),
                item => new FamilyPage(item),
                cancel);

        /// <summary>
        /// Read a page of a family's boards by name, newest or played. <paramref name="metadata"/> has values to filter
        /// by, as text.
        /// </summary>
        public Task<FamilyBoardPage> FamilyBoards(
            string family,
            string order = null,
            long? limit = null,
            string cursor = null,
            IEnumerable<KeyValuePair<string, string>> metadata = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var query = new Query().Add("order", order).Add("limit", limit).Add("cursor", cursor);
            foreach (var filter in metadata ?? new KeyValuePair<string, string>[0])
            {
                query.Add("metadata." + filter.Key, filter.Value);
            }

            return Get(FamilyPath(family) + "/boards" + query, item => new FamilyBoardPage(item), cancel);
        }

        /// <summary>Read a page of the boards of a family on which a player stands, with the ranks.</summary>
        public Task<StandingPage> Standings(
            string family,
            string player,
            string window = null,
            long? limit = null,
            string cursor = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var query = new Query().Add("window", window).Add("limit", limit).Add("cursor", cursor);
            var path = FamilyPath(family) + "/players/" + Query.Segment(player) + "/standings";
            return Get(path + query, item => new StandingPage(item), cancel, asPlayer: HasToken);
        }

        /// <summary>Read what a player has on up to 100 boards, in their order.</summary>
        public async Task<IReadOnlyList<BoardEntry>> EntriesOn(
            string player,
            IReadOnlyList<string> boards,
            string window = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var query = new Query().Add("boards", boards).Add("window", window);
            var path = "/v1/players/" + Query.Segment(player) + "/entries" + query;
            return (await Get(path, item => new BoardEntryList(item), cancel, asPlayer: HasToken)).Entries;
        }

        private static string FamilyPath(string family) => "/v1/families/" + Query.Segment(family);
    }
}
