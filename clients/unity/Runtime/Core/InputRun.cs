namespace Scoregate
{
    /// <summary>A stretch of ticks with the same input word.</summary>
    public struct InputRun
    {
        /// <summary>Make a stretch of <paramref name="length"/> ticks.</summary>
        public InputRun(uint length, uint word)
        {
            Length = length;
            Word = word;
        }

        /// <summary>The number of ticks, at least 1.</summary>
        public uint Length { get; }

        /// <summary>The input word of each of them.</summary>
        public uint Word { get; }
    }
}
