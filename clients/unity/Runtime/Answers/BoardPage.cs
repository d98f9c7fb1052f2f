using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A page of the boards, by name.</summary>
    public sealed class BoardPage : Document
    {
        internal BoardPage(JsonValue json) : base(json)
        {
            Boards = ListOf(json["boards"], item => new Board(item));
            Next = json["next"].AsTextOrNull();
        }

        /// <summary>The boards.</summary>
        public IReadOnlyList<Board> Boards { get; }

        /// <summary>The cursor of the next page, null after the last.</summary>
        public string Next { get; }
    }
}
