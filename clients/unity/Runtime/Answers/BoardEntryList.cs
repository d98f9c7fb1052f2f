using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>What a player has on several boards.</summary>
    public sealed class BoardEntryList : Document
    {
        internal BoardEntryList(JsonValue json) : base(json)
        {
            Entries = ListOf(json["entries"], item => new BoardEntry(item));
        }

        /// <summary>One for each board, in the order asked for.</summary>
        public IReadOnlyList<BoardEntry> Entries { get; }
    }
}
