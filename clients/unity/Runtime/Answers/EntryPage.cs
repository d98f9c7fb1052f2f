using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A page of a window of a board.</summary>
    public sealed class EntryPage : Document
    {
        internal EntryPage(JsonValue json) : base(json)
        {
            Board = json["board"].AsText();
            Window = json["window"].AsText();
            Total = json["total"].AsLong();
            Entries = ListOf(json["entries"], item => new Entry(item));
            Next = json["next"].AsTextOrNull();
            Previous = json["previous"].AsTextOrNull();
            Unranked = ListOrEmpty(json["unranked"], item => item.AsText());
        }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>The window.</summary>
        public string Window { get; }

        /// <summary>The number of entries in the window, or of the players asked for.</summary>
        public long Total { get; }

        /// <summary>The entries, best first.</summary>
        public IReadOnlyList<Entry> Entries { get; }

        /// <summary>The cursor of the next page, null after the last.</summary>
        public string Next { get; }

        /// <summary>The cursor of the page before, null before the first.</summary>
        public string Previous { get; }

        /// <summary>The players asked for who have no entry.</summary>
        public IReadOnlyList<string> Unranked { get; }
    }
}
